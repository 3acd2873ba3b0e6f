package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	megabyte = 1_000_000
	// small is the length of the answer to a small request.
	small = 1000
)

// figures are those of one way.
type figures struct {
	OneStream   float64 `json:"oneStreamMBps"`
	ManyStreams float64 `json:"manyStreamsMBps"`
	P50         float64 `json:"p50Micros"`
	P99         float64 `json:"p99Micros"`
	PerSecond   float64 `json:"requestsPerSecond"`
	CPU         float64 `json:"cpuMicrosPerRequest"`
}

// measure goes through the rounds.
func measure(ctx context.Context, s settings) (*report, error) {
	w, err := newWorld(ctx, s.secure)
	if err != nil {
		return nil, err
	}
	defer w.close()
	ways := map[string]http.RoundTripper{"direct": w.direct, "tunnel": w.tunnel}
	rounds := map[string][]figures{}
	for range s.rounds {
		for _, name := range []string{"direct", "tunnel"} {
			f, err := w.round(ctx, s, ways[name])
			if err != nil {
				return nil, err
			}
			rounds[name] = append(rounds[name], f)
		}
	}
	return newReport(s, medianOf(rounds["direct"]), medianOf(rounds["tunnel"])), nil
}

// round measures one way once.
func (w *world) round(ctx context.Context, s settings, way http.RoundTripper) (f figures, err error) {
	// What is made at the first request is not counted.
	if err := w.get(ctx, way, small); err != nil {
		return f, err
	}
	if f.OneStream, err = w.throughput(ctx, way, 1, s.megabytes); err != nil {
		return f, err
	}
	if f.ManyStreams, err = w.throughput(ctx, way, s.streams, s.megabytes); err != nil {
		return f, err
	}
	if f.P50, f.P99, err = w.latency(ctx, way, s.requests); err != nil {
		return f, err
	}
	f.PerSecond, f.CPU, err = w.load(ctx, way, s)
	return f, err
}

// throughput is in megabytes per second.
func (w *world) throughput(ctx context.Context, way http.RoundTripper, streams, megabytes int) (float64, error) {
	began := time.Now()
	err := parallel(streams, func(int) error { return w.get(ctx, way, megabytes*megabyte/streams) })
	return float64(megabytes) / time.Since(began).Seconds(), err
}

// latency is in microseconds.
func (w *world) latency(ctx context.Context, way http.RoundTripper, requests int) (p50, p99 float64, err error) {
	delays := make([]time.Duration, requests)
	for i := range delays {
		began := time.Now()
		if err := w.get(ctx, way, small); err != nil {
			return 0, 0, err
		}
		delays[i] = time.Since(began)
	}
	slices.Sort(delays)
	at := func(percent int) float64 {
		return float64(delays[(len(delays)*percent+99)/100-1]) / float64(time.Microsecond)
	}
	return at(50), at(99), nil
}

// load is requests per second, and microseconds of processor time for each.
func (w *world) load(ctx context.Context, way http.RoundTripper, s settings) (perSecond, cpu float64, err error) {
	used, began := processorTime(), time.Now()
	each := s.requests / s.streams
	err = parallel(s.streams, func(int) error {
		for range each {
			if err := w.get(ctx, way, small); err != nil {
				return err
			}
		}
		return nil
	})
	total := float64(each * s.streams)
	return total / time.Since(began).Seconds(), float64((processorTime() - used).Microseconds()) / total, err
}

// parallel does something several times at a time, and gives the first error.
func parallel(n int, do func(i int) error) error {
	errs := make(chan error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs <- do(i) })
	}
	running.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
