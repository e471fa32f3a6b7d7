// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/psgd/psgdpb"
)

// What the protocol allows as the name of a model file: no path leads out of the folder.
var safeName = regexp.MustCompile(`^[\w()-][\w.()-]*$`)

// download writes the model files of a job that is over into folder.
func (c *client) download(ctx context.Context, job *pb.Job, folder string) error {
	for _, file := range job.Artifacts {
		if file.Kind != pb.ArtifactKind_ARTIFACT_KIND_MODEL {
			continue
		}
		if !safeName.MatchString(file.Name) {
			return fmt.Errorf("download: %q is no name for a file", file.Name)
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
		path := filepath.Join(folder, file.Name)
		if err := c.save(ctx, job.Id, file, path); err != nil {
			return fmt.Errorf("download %s: %w", file.Name, err)
		}
		fmt.Printf("saved %s (%d bytes)\n", path, file.Size)
	}
	return nil
}

// save writes one file. Nothing is at path until all of it has arrived and has
// the right SHA-256.
func (c *client) save(ctx context.Context, jobID string, file *pb.Artifact, path string) error {
	part, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // after the rename there is nothing to remove
	defer part.Close()
	digest := sha256.New()
	if err := c.receive(ctx, jobID, file, io.MultiWriter(part, digest)); err != nil {
		return err
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); file.Sha256 != "" && sum != file.Sha256 {
		return fmt.Errorf("the SHA-256 is %s, not %s", sum, file.Sha256)
	}
	if err := part.Close(); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// receive copies a file to out. A broken stream is resumed at the next byte.
func (c *client) receive(ctx context.Context, jobID string, file *pb.Artifact, out io.Writer) error {
	var offset uint64
	return c.resume(ctx, func(ctx context.Context) (moved bool, err error) {
		if offset == file.Size { // the stream broke after the last byte
			return false, nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silence := time.AfterFunc(c.timeout, cancel)
		defer silence.Stop()
		stream, err := c.api.ReclaimLogs(ctx, &pb.ReclaimLogsRequest{JobId: jobID, Name: file.Name, Offset: offset})
		if err != nil {
			return false, err
		}
		for {
			chunk, err := stream.Recv()
			switch {
			case err == io.EOF && offset == file.Size:
				return moved, nil
			case err == io.EOF:
				return moved, fmt.Errorf("it ends after %d of %d bytes", offset, file.Size)
			case err != nil && !silence.Stop():
				return moved, status.Errorf(codes.DeadlineExceeded, "nothing came for %v", c.timeout)
			case err != nil:
				return moved, err
			}
			size := uint64(len(chunk.Payload))
			if chunk.Offset != offset || size == 0 || size > file.Size-offset {
				return moved, fmt.Errorf("%d bytes at offset %d came, of %d bytes at offset %d",
					size, chunk.Offset, file.Size-offset, offset)
			}
			if crc32.ChecksumIEEE(chunk.Payload) != chunk.Crc32 {
				return moved, fmt.Errorf("the chunk at offset %d has a wrong CRC-32", offset)
			}
			if _, err := out.Write(chunk.Payload); err != nil {
				return moved, err
			}
			silence.Reset(c.timeout)
			offset, moved = offset+size, true
		}
	})
}
