package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// apiCosts are counters of the API server: requests by verb and resource, the bytes of
// watch events by resource, and the CPU time of the whole cluster. They show what a change
// costs the API server, beyond the time of the call.
type apiCosts struct {
	requests map[string]float64
	events   map[string]float64 // bytes
	cpu      float64            // seconds
}

// apiCosts reads the counters.
func (w *world) apiCosts(ctx context.Context) (apiCosts, error) {
	text, err := w.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return apiCosts{}, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseAPICosts(string(text)), nil
}

// parseAPICosts reads the counters from metrics in the text format of Prometheus.
func parseAPICosts(text string) apiCosts {
	c := apiCosts{requests: map[string]float64{}, events: map[string]float64{}}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, "{")
		labels, number, labelled := strings.Cut(rest, "} ")
		if !labelled {
			name, number, _ = strings.Cut(line, " ")
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			continue // a comment
		}
		switch name {
		case "process_cpu_seconds_total":
			c.cpu = value
		case "apiserver_request_total":
			resource := labelOf(labels, "resource")
			if sub := labelOf(labels, "subresource"); sub != "" {
				resource += "/" + sub
			}
			c.requests[labelOf(labels, "verb")+" "+resource] += value
		case "apiserver_watch_events_sizes_sum":
			c.events[labelOf(labels, "resource")] += value
		}
	}
	return c
}

// labelOf returns the value of a label. Values with quotes do not occur here.
func labelOf(labels, name string) string {
	for pair := range strings.SplitSeq(labels, ",") {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// text returns the difference to earlier counters for each of a number of changes, without
// what is rarer than one change of ten.
func (c apiCosts) text(before apiCosts, changes int) string {
	var parts []string
	add := func(format string, after, before map[string]float64, least float64) {
		for _, key := range slices.Sorted(maps.Keys(after)) {
			if each := (after[key] - before[key]) / float64(changes); each >= least {
				parts = append(parts, fmt.Sprintf(format, key, each))
			}
		}
	}
	add("%s %.2f", c.requests, before.requests, 0.1)
	add("events of %s %.0f B", c.events, before.events, 100)
	return fmt.Sprintf("%.1f ms CPU; %s", 1000*(c.cpu-before.cpu)/float64(changes), strings.Join(parts, ", "))
}

// reportAPICosts reports what the changes of a phase cost the API server.
func (b *bench) reportAPICosts(ctx context.Context, phase string, before apiCosts, changes int) error {
	after, err := b.world.apiCosts(ctx)
	if err == nil {
		b.report("%s: each change costs the API server, with those of the benchmark: %s", phase, after.text(before, changes))
	}
	return err
}
