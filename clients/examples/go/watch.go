// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"

	pb "example.com/psgd/psgdpb"
)

// watch prints a job's events until the job is over, and returns the job.
// Each event has a number, after which a broken stream is resumed.
func (c *client) watch(ctx context.Context, id string) (*pb.Job, error) {
	var sequence uint64
	err := c.resume(ctx, func(ctx context.Context) (moved bool, err error) {
		stream, err := c.api.WatchJob(ctx, &pb.WatchJobRequest{JobId: id, AfterSequence: sequence})
		if err != nil {
			return false, err
		}
		for {
			event, err := stream.Recv()
			if err == io.EOF {
				return moved, nil
			}
			if err != nil {
				return moved, err
			}
			sequence, moved = event.Sequence, true
			show(event)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch job %s: %w", id, err)
	}

	var job *pb.Job
	err = c.resume(ctx, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		answer, err := c.api.GetJob(ctx, &pb.GetJobRequest{JobId: id})
		job = answer.GetJob()
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("get job %s: %w", id, err)
	}
	return job, nil
}

// show prints an event as a line.
func show(event *pb.WatchJobResponse) {
	job := event.Job
	switch event.Kind {
	case pb.JobEventKind_JOB_EVENT_KIND_STATE:
		fmt.Println(strings.TrimSpace(stateName(job.GetState()) + " " + job.GetMessage()))
	case pb.JobEventKind_JOB_EVENT_KIND_PROGRESS:
		if p := job.GetProgress(); p.GetStep() > 0 { // before, nothing is measured
			fmt.Printf("step %d/%d  loss %.4f  accuracy %.3f  %.0f samples/s\n",
				p.Step, p.TotalSteps, p.Loss, p.Accuracy, p.SamplesPerSecond)
		}
	case pb.JobEventKind_JOB_EVENT_KIND_METRICS:
		fmt.Println("test set:", metrics(job.GetResult()))
	}
}

// metrics returns values by name as words, in the order of the names.
func metrics(result map[string]float64) string {
	var words []string
	for name, value := range result {
		words = append(words, fmt.Sprintf("%s %.4f", name, value))
	}
	sort.Strings(words)
	return strings.Join(words, "  ")
}
