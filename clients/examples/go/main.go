// SPDX-License-Identifier: Apache-2.0

// Psgd-client submits a job to a psgd coordinator, watches it until it is over,
// and downloads its model files.
//
//	psgd-client [-coordinator HOST:PORT] [-tls-dir DIR] [-output DIR] [-timeout 30s] JOB.json
//
// JOB.json is a JobSpec in protobuf's JSON form. The exit code is 0 if the job
// is done, 1 if it failed or was cancelled, 2 if there is no connection, and 4
// for a bad job or bad arguments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	pb "example.com/psgd/psgdpb"
)

const (
	exitDone         = 0
	exitFailed       = 1
	exitNoConnection = 2
	exitBadJob       = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run does all that the program does, and returns its exit code.
func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("psgd-client", flag.ContinueOnError)
	coordinator := flags.String("coordinator", "127.0.0.1:15386", "`HOST:PORT` of the coordinator")
	tlsDir := flags.String("tls-dir", "", "`DIR` has root.pem, and identity.pem if there is no PSGD_TOKEN (default plaintext)")
	output := flags.String("output", "", "`DIR` for the model files (default the job's id)")
	timeout := flags.Duration("timeout", 30*time.Second, "how long the coordinator may be silent or away")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: psgd-client [flags] JOB.json")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitDone
	} else if err != nil {
		return exitBadJob
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return exitBadJob
	}

	spec, err := readSpec(flags.Arg(0))
	if err != nil {
		return report(err, exitBadJob)
	}
	c, err := connect(*coordinator, *tlsDir, os.Getenv("PSGD_TOKEN"), *timeout)
	if err != nil {
		return report(err, exitBadJob)
	}
	defer c.conn.Close()

	job, err := c.submit(ctx, spec)
	if err != nil {
		return report(err, exitCode(err))
	}
	fmt.Println("job", job.Id)
	if *output == "" {
		*output = job.Id
	}
	id := job.Id
	if job, err = c.watch(ctx, id); ctx.Err() != nil {
		return report(fmt.Errorf("interrupted; job %s goes on", id), exitFailed)
	} else if err != nil {
		return report(err, exitCode(err))
	}
	if err := c.download(ctx, job, *output); err != nil {
		return report(err, exitCode(err))
	}
	if job.State != pb.JobState_JOB_STATE_DONE {
		return report(fmt.Errorf("job %s is %s: %s", job.Id, stateName(job.State), job.Message), exitFailed)
	}
	return exitDone
}

// readSpec reads a JobSpec from a JSON file. Fields that it does not know are errors.
func readSpec(path string) (*pb.JobSpec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	spec := &pb.JobSpec{}
	if err := protojson.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

// submit returns the job that the coordinator has accepted.
func (c *client) submit(ctx context.Context, spec *pb.JobSpec) (*pb.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.api.SubmitJob(ctx, &pb.SubmitJobRequest{Spec: spec})
	if err != nil {
		return nil, fmt.Errorf("submit to %s: %w", c.address, err)
	}
	return answer.Job, nil
}

// stateName returns a state without the prefix of its enum.
func stateName(state pb.JobState) string {
	return strings.TrimPrefix(state.String(), "JOB_STATE_")
}

// statusOf returns the status of the call that err wraps. It is Unknown if err
// is of no call.
func statusOf(err error) *status.Status {
	var call interface{ GRPCStatus() *status.Status }
	if errors.As(err, &call) {
		return call.GRPCStatus()
	}
	return status.New(codes.Unknown, err.Error())
}

// exitCode returns the exit code for a call that failed.
func exitCode(err error) int {
	switch statusOf(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return exitNoConnection
	case codes.InvalidArgument:
		return exitBadJob
	}
	return exitFailed
}

// report prints err, with every wrong field of a job that was refused. It
// returns code.
func report(err error, code int) int {
	fmt.Fprintf(os.Stderr, "psgd-client: %v\n", err)
	for _, detail := range statusOf(err).Details() {
		// If one field is wrong, the text of the status says all.
		if bad, ok := detail.(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 1 {
			for _, field := range bad.FieldViolations {
				fmt.Fprintf(os.Stderr, "  %s: %s\n", field.Field, field.Description)
			}
		}
	}
	return code
}
