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
	// megabyte is the decimal unit that throughput is reported in.
	megabyte = 1_000_000
	// small is the body length of the response to a small request.
	small = 1000
)

// figures are the results for one path, direct or tunnel; the JSON names carry
// the units.
type figures struct {
	OneStream   float64 `json:"oneStreamMBps"`
	ManyStreams float64 `json:"manyStreamsMBps"`
	P50         float64 `json:"p50Micros"`
	P99         float64 `json:"p99Micros"`
	PerSecond   float64 `json:"requestsPerSecond"`
	CPU         float64 `json:"cpuMicrosPerRequest"`
}

// measure runs all rounds against one hub and one direct server, which live as
// long as the run. The two paths alternate within a round, so that a
// disturbance of the machine affects both.
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

// round measures one path once: throughput, then latency, then load.
func (w *world) round(ctx context.Context, s settings, way http.RoundTripper) (f figures, err error) {
	// The first request pays for the connection and its handshake, so it runs
	// outside the measurement.
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

// throughput returns megabytes per second over concurrent streams, which share
// the given volume.
func (w *world) throughput(ctx context.Context, way http.RoundTripper, streams, megabytes int) (float64, error) {
	began := time.Now()
	err := parallel(streams, func(int) error { return w.get(ctx, way, megabytes*megabyte/streams) })
	return float64(megabytes) / time.Since(began).Seconds(), err
}

// latency sends requests one after the other and returns percentiles in
// microseconds. A percentile is the smallest sample that the given share of the
// samples does not exceed.
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

// load sends small requests on concurrent streams. It returns requests per
// second, and CPU time per request in microseconds.
func (w *world) load(ctx context.Context, way http.RoundTripper, s settings) (perSecond, cpu float64, err error) {
	used, began := processorTime(), time.Now()
	// Rounding down leaves out a remainder, so rates are computed from the
	// number of requests that were sent.
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

// parallel runs do n times concurrently, waits for all of them and returns the
// first error that was reported.
func parallel(n int, do func(i int) error) error {
	// The capacity is n, so that no goroutine blocks before Wait.
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

// processorTime returns the user and system time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
