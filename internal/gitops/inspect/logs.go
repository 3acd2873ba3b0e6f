package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// MaxStreams bounds the containers that are read at a time.
	MaxStreams = 100
	// LogLine bounds a line; a longer one is split.
	LogLine = 64 << 10
)

// LogStream is one container.
type LogStream struct {
	Namespace, Pod, Container string
}

// LogOptions select the part of a log.
type LogOptions struct {
	// Follow keeps the stream open, and Previous reads the instance before the
	// last restart.
	Follow   bool
	Previous bool
	// Tail is the number of lines from the end; less than 0 is all.
	Tail int64
	// Since is the largest age of lines; 0 is any age.
	Since time.Duration
	// Bytes bounds one log; 0 is unlimited.
	Bytes int64
	// Timestamps adds the time of each line.
	Timestamps bool
}

// LogLineOf is one line of a log, or a part of a long one.
type LogLineOf struct {
	Stream LogStream
	// At is when it was written, if timestamps were requested.
	At   time.Time
	Text string
}

// Pods returns the Pods of a tree: those of the Application, and those that its
// objects own. With chosen keys, only those at or below one of them. A Pod
// below several chosen objects is returned once.
func (t *Tree) Pods(chosen []tracking.Key) ([]*corev1.Pod, error) {
	wanted := map[tracking.Key]bool{}
	for _, key := range chosen {
		wanted[key] = true
	}
	var pods []*corev1.Pod
	var failed error
	seen := map[tracking.Key]bool{}
	var visit func(node *Node, taken bool)
	visit = func(node *Node, taken bool) {
		key := node.Key()
		taken = taken || len(chosen) == 0 || wanted[key]
		if taken && node.Group == "" && node.Kind == "Pod" && !seen[key] {
			seen[key] = true
			pod, err := t.pod(key)
			if failed == nil {
				failed = err
			}
			if pod != nil {
				pods = append(pods, pod)
			}
		}
		for _, child := range node.Children {
			visit(child, taken)
		}
	}
	for _, node := range t.Root.Children {
		visit(node, false)
	}
	return pods, failed
}

// pod returns a Pod of the tree; nil if it is gone.
func (t *Tree) pod(key tracking.Key) (*corev1.Pod, error) {
	object := t.pods[key]
	if object == nil {
		return nil, nil // it is in the status, and gone
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return pod, nil
}

// Streams returns the containers of Pods, or those of a name. Init containers
// are left out. Only a followed log keeps its connection open, so that the
// bound applies to those.
func Streams(app tracking.App, pods []*corev1.Pod, container string, follow bool) ([]LogStream, error) {
	var streams []LogStream
	var names []string
	for _, pod := range pods {
		for _, each := range pod.Spec.Containers {
			names = append(names, each.Name)
			if container == "" || container == each.Name {
				streams = append(streams, LogStream{pod.Namespace, pod.Name, each.Name})
			}
		}
	}
	switch {
	case len(pods) == 0:
		return nil, &StateError{fmt.Sprintf("%s has no Pods: see slipway app tree %s", app, app)}
	case len(streams) == 0:
		slices.Sort(names)
		return nil, &StateError{fmt.Sprintf("no container of %s is named %s: there are %s", app, container, strings.Join(slices.Compact(names), ", "))}
	case follow && len(streams) > MaxStreams:
		return nil, &StateError{fmt.Sprintf("%d containers are too many to follow: choose some with --resource or -c", len(streams))}
	}
	return streams, nil
}

// ReadLog reads the log of one container line by line until it ends, the
// context is done, or take fails. It has no timeout of its own: a followed log
// is open until the caller cancels it.
func (i *Inspector) ReadLog(ctx context.Context, stream LogStream, options LogOptions, take func(LogLineOf) error) error {
	requested := &corev1.PodLogOptions{Container: stream.Container, Follow: options.Follow, Previous: options.Previous, Timestamps: options.Timestamps}
	if options.Tail >= 0 {
		requested.TailLines = &options.Tail
	}
	if options.Since > 0 {
		// The API has whole seconds, and refuses 0.
		seconds := int64(max(options.Since.Seconds(), 1))
		requested.SinceSeconds = &seconds
	}
	if options.Bytes > 0 {
		requested.LimitBytes = &options.Bytes
	}
	body, err := i.Client.CoreV1().Pods(stream.Namespace).GetLogs(stream.Pod, requested).Stream(ctx)
	if apierrors.IsBadRequest(err) {
		// It waits to start, or has no earlier run: nothing to show is no failure.
		return take(LogLineOf{Stream: stream, Text: "(" + err.Error() + ")"})
	}
	if err != nil {
		return fmt.Errorf("logs of %s/%s, container %s: %w", stream.Namespace, stream.Pod, stream.Container, err)
	}
	defer body.Close()
	reader := bufio.NewReaderSize(body, LogLine)
	// The time of a long line applies to all of its parts.
	line := LogLineOf{Stream: stream}
	continued := false
	for {
		text, more, err := reader.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		line.Text = string(text)
		if options.Timestamps && !continued {
			line.At, line.Text = cutTime(line.Text)
		}
		continued = more
		if err := take(line); err != nil {
			return err
		}
	}
}

// cutTime splits the timestamp from a line. A line without a valid timestamp is
// returned unchanged, with the zero time.
func cutTime(line string) (time.Time, string) {
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line
	}
	return at, text
}
