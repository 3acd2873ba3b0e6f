package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/test/e2e/node"
)

// mostPods and mostBytes are the limits for agent and edge together. The step
// fails above them.
const (
	mostPods  = 3
	mostBytes = 300e6
)

// footprint measures the memory and CPU time of the idle runtime from its
// control groups, and fails if it exceeds the limits. CPU is a rate over
// s.quiet; memory is the value at the end of that time.
func (s *scene) footprint(ctx context.Context) (string, error) {
	before, err := s.measure(ctx)
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := rest(ctx, s.quiet); err != nil {
		return "", err
	}
	after, err := s.measure(ctx)
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	image, err := os.Stat(filepath.Join(s.root, "bin", "e2e", "slipway.tar"))
	if err != nil {
		return "", err
	}
	// Pods that were replaced during the measurement have no first value; their
	// CPU time then counts from their start, which is shorter.
	var lines []string
	total, pods := node.Usage{}, 0
	for pod, used := range after {
		cpu := used.CPU - before[pod].CPU
		lines = append(lines, "\n                    "+fmt.Sprintf("%-36s ", pod)+shown(used, cpu, took))
		total.Own, total.Working, total.Resident = total.Own+used.Own, total.Working+used.Working, total.Resident+used.Resident
		total.CPU += cpu
		pods++
	}
	about := fmt.Sprintf("%d pods, %s over %s; image %.1f MB%s", pods, shown(total, total.CPU, took), took.Round(time.Second), float64(image.Size())/1e6, strings.Join(lines, ""))
	// Working and Resident count shared pages differently. The larger one has
	// to fit, so neither accounting hides growth.
	if pods > mostPods || max(total.Working, total.Resident) > mostBytes {
		return "", fmt.Errorf("the goal is at most %d pods and %.0f MB: %s", mostPods, mostBytes/1e6, about)
	}
	return about, nil
}

// shown formats a usage for the report.
func shown(used node.Usage, cpu, took time.Duration) string {
	return fmt.Sprintf("%5.1f MB of its own, %5.1f MB with the cache in use, %5.1f MB resident with the program, %4.1f ms of CPU a second",
		float64(used.Own)/1e6, float64(used.Working)/1e6, float64(used.Resident)/1e6, cpu.Seconds()*1000/took.Seconds())
}

// measure returns the usage of each running Pod of the runtime, by name. The
// usage of a Pod is the sum over its containers, without the pause container.
// Terminating Pods are left out.
func (s *scene) measure(ctx context.Context) (map[string]node.Usage, error) {
	pods, err := s.node.Client.CoreV1().Pods(runtimeRelease().namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=slipway"})
	if err != nil {
		return nil, err
	}
	found := map[string]node.Usage{}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		var sum node.Usage
		for _, container := range pod.Status.ContainerStatuses {
			used, err := s.node.Measure(container.ContainerID)
			if err != nil {
				return nil, fmt.Errorf("the Pod %s: %w", pod.Name, err)
			}
			sum.Own, sum.Working, sum.Resident, sum.CPU = sum.Own+used.Own, sum.Working+used.Working, sum.Resident+used.Resident, sum.CPU+used.CPU
		}
		found[pod.Name] = sum
	}
	return found, nil
}
