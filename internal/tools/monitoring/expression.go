package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// foreign are the metrics that Prometheus and its client library have for every
// program.
var foreign = []string{"slipway_build_info", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_max_fds", "go_goroutines"}

// targetLabels are the labels that Prometheus adds, and that of buckets.
var targetLabels = []string{"namespace", "exported_namespace", "job", "instance", "pod", "le", "version"}

var (
	metricForm   = regexp.MustCompile(`\b(?:slipway|process|go)_[a-z0-9_]+`)
	selectorForm = regexp.MustCompile(`\b((?:slipway|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	matcherForm  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	groupForm    = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left)\s*\(([^)]*)\)`)
)

// check returns an error if an expression of a role has a metric that the role
// does not declare, or a label that the metric does not have. promtool checks
// the syntax.
func (r role) check(expression string) error {
	var labels []string
	for _, name := range metricForm.FindAllString(expression, -1) {
		if slices.Contains(foreign, name) {
			continue
		}
		found, ok := r.find(name)
		if !ok {
			return fmt.Errorf("slipway %s has no metric %s: %s", r.name, name, expression)
		}
		labels = append(labels, found.labels...)
	}
	for _, selector := range selectorForm.FindAllStringSubmatch(expression, -1) {
		found, _ := r.find(selector[1])
		for _, matcher := range matcherForm.FindAllStringSubmatch(selector[2], -1) {
			if !slices.Contains(found.labels, matcher[1]) && !slices.Contains(targetLabels, matcher[1]) {
				return fmt.Errorf("the metric %s of slipway %s has no label %s: %s", selector[1], r.name, matcher[1], expression)
			}
		}
	}
	for _, group := range groupForm.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) && !slices.Contains(targetLabels, label) {
				return fmt.Errorf("no metric of slipway %s in this expression has the label %s: %s", r.name, label, expression)
			}
		}
	}
	return nil
}
