// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	pb "example.com/psgd/psgdpb"
)

// client is a connection to a coordinator.
type client struct {
	conn    *grpc.ClientConn
	api     pb.CoordinatorServiceClient
	address string
	timeout time.Duration // how long the coordinator may be silent or away
}

// connect returns a client at once; its first call finds out whether the
// coordinator is there. The link is plaintext if tlsDir is empty.
func connect(address, tlsDir, token string, timeout time.Duration) (*client, error) {
	options, err := security(tlsDir, token)
	if err != nil {
		return nil, err
	}
	again := backoff.DefaultConfig
	again.BaseDelay, again.MaxDelay = 100*time.Millisecond, time.Second
	options = append(options,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: dialTimeout(timeout)}),
		// A watch may be silent for hours. Pings tell whether its other end is alive.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}))
	conn, err := grpc.Dial(address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &client{conn, pb.NewCoordinatorServiceClient(conn), address, timeout}, nil
}

// dialTimeout returns how long one attempt to connect may take.
func dialTimeout(timeout time.Duration) time.Duration {
	return timeout / 6
}

// security returns how the link is protected and who calls.
func security(tlsDir, token string) ([]grpc.DialOption, error) {
	if tlsDir == "" {
		return []grpc.DialOption{grpc.WithInsecure()}, nil // from gRPC 1.34 on there is also package insecure
	}
	root := filepath.Join(tlsDir, "root.pem")
	pem, err := os.ReadFile(root)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it", root)
	}
	if token != "" {
		return []grpc.DialOption{
			grpc.WithTransportCredentials(credentials.NewTLS(config)),
			grpc.WithPerRPCCredentials(bearer(token)),
		}, nil
	}
	identity := filepath.Join(tlsDir, "identity.pem") // both the key and the certificate
	pair, err := tls.LoadX509KeyPair(identity, identity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identity, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}, nil
}

// bearer is a token that every call brings.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

// resume calls read until it succeeds or fails for good. If the coordinator is
// lost, read is called again, and continues where it was. resume gives up when
// the coordinator has been away for the client's timeout.
func (c *client) resume(ctx context.Context, read func(context.Context) (moved bool, err error)) error {
	seen, lost := time.Now(), false
	for {
		began := time.Now()
		attempt, cancel := context.WithCancel(ctx)
		moved, err := read(attempt)
		cancel()
		if status.Code(err) != codes.Unavailable {
			return err
		}
		// A call waits for one dial, or two if the first connection breaks at once. One that
		// lasted longer had a connection, also if nothing came.
		if moved || time.Since(began) > 3*dialTimeout(c.timeout) {
			seen, lost = time.Now(), false
		}
		if time.Since(seen) > c.timeout {
			return fmt.Errorf("%s was away for %v: %w", c.address, c.timeout, err)
		}
		if !lost {
			fmt.Fprintf(os.Stderr, "psgd-client: lost %s, trying again: %v\n", c.address, err)
			lost = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
