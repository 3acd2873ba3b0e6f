package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// mostStreams bounds how many containers are followed at a time.
	mostStreams = 100
	// logLine bounds a line; a longer one is shown in pieces.
	logLine = 64 << 10
)

// logFlags say what of the logs is shown.
type logFlags struct {
	container string
	resources []string
	follow    bool
	previous  bool
	tail      int64
	since     time.Duration
}

func appLogsCommand(access *appAccess) *cobra.Command {
	given := &logFlags{tail: 100}
	command := &cobra.Command{
		Use:   "logs APP",
		Short: "Show the logs of an Application's Pods",
		Long: `Shows what the containers of an Application's Pods have written. Where there are
several, each line starts with the Pod and the container. With --follow it goes
on with the Pods that were there at the start, until Ctrl-C.`,
		Example: `  slipway app logs shop --tail 20
  slipway app logs shop -f -c web --resource apps:Deployment:web`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			cluster, err := access.open()
			if err != nil {
				return err
			}
			defer cluster.Close()
			streams, err := cluster.logStreams(command, args[0], given)
			if err != nil {
				return err
			}
			return given.show(command.Context(), cluster, streams, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&given.container, "container", "c", "", "only containers of this name")
	flags.StringArrayVar(&given.resources, "resource", nil, "only Pods of this object, as group:kind:name or group:kind:namespace/name; may be repeated")
	flags.BoolVarP(&given.follow, "follow", "f", false, "go on with what is written from here on")
	flags.BoolVarP(&given.previous, "previous", "p", false, "logs of the containers before their last restart")
	flags.Int64Var(&given.tail, "tail", given.tail, "lines from the end of each log; -1 is all")
	flags.DurationVar(&given.since, "since", 0, "only what is newer than this, such as 10m")
	return command
}

// logStream is one container.
type logStream struct {
	namespace, pod, container string
}

// logStreams finds the containers of an Application.
func (c *appCluster) logStreams(command *cobra.Command, name string, given *logFlags) ([]logStream, error) {
	app, err := c.get(command.Context(), name)
	if err != nil {
		return nil, err
	}
	pods, err := c.podsOf(command, app, given.resources)
	if err != nil {
		return nil, err
	}
	var streams []logStream
	var names []string
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			names = append(names, container.Name)
			if given.container == "" || given.container == container.Name {
				streams = append(streams, logStream{pod.Namespace, pod.Name, container.Name})
			}
		}
	}
	switch {
	case len(pods) == 0:
		return nil, fmt.Errorf("%s has no Pods: see slipway app tree %s", app.id(), qualifiedName(app.object))
	case len(streams) == 0:
		slices.Sort(names)
		return nil, fmt.Errorf("no container of %s is named %s: there are %s", app.id(), given.container, strings.Join(slices.Compact(names), ", "))
	case given.follow && len(streams) > mostStreams:
		return nil, fmt.Errorf("%d containers are too many to follow: choose some with --resource or -c", len(streams))
	}
	return streams, nil
}

// podsOf are the Pods of an Application, or of some of its objects: those that
// it has itself, and those that its objects own.
func (c *appCluster) podsOf(command *cobra.Command, app *application, chosen []string) ([]*corev1.Pod, error) {
	owned, err := c.owned(command.Context(), app, command.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	selected, err := chooseResources(app, chosen)
	if err != nil {
		return nil, err
	}
	wanted := map[tracking.Key]bool{}
	for _, choice := range selected {
		wanted[tracking.Key{Group: choice.Group, Kind: choice.Kind, Namespace: choice.Namespace, Name: choice.Name}] = true
	}
	var pods []*corev1.Pod
	for _, node := range treeOf(app, owned, time.Now()).Children {
		if len(chosen) > 0 && !wanted[node.key()] {
			continue
		}
		for _, key := range node.pods(nil) {
			pod := &corev1.Pod{}
			object := owned.pods[key]
			if object == nil {
				continue // it is in the status, and gone
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// pods adds the Pods at and below a node.
func (n *treeNode) pods(found []tracking.Key) []tracking.Key {
	if n.Group == "" && n.Kind == "Pod" {
		found = append(found, n.key())
	}
	for _, child := range n.Children {
		found = child.pods(found)
	}
	return found
}

// show copies the logs. Those with an end come one after the other in the order
// of Pods; those without come as they are written.
func (f *logFlags) show(ctx context.Context, cluster *appCluster, streams []logStream, out io.Writer) error {
	sink := &lineSink{w: out}
	group, ctx := errgroup.WithContext(ctx)
	if !f.follow {
		group.SetLimit(1)
	}
	for _, stream := range streams {
		prefix := ""
		if len(streams) > 1 {
			prefix = "[" + stream.pod + "/" + stream.container + "] "
		}
		group.Go(func() error { return f.copy(ctx, cluster, stream, sink, prefix) })
	}
	err := group.Wait()
	if f.follow && errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how it ends
	}
	return err
}

// copy copies one log.
func (f *logFlags) copy(ctx context.Context, cluster *appCluster, stream logStream, sink *lineSink, prefix string) error {
	options := &corev1.PodLogOptions{Container: stream.container, Follow: f.follow, Previous: f.previous}
	if f.tail >= 0 {
		options.TailLines = &f.tail
	}
	if f.since > 0 {
		seconds := int64(max(f.since.Seconds(), 1))
		options.SinceSeconds = &seconds
	}
	body, err := cluster.Client.CoreV1().Pods(stream.namespace).GetLogs(stream.pod, options).Stream(ctx)
	if apierrors.IsBadRequest(err) {
		// It waits to start, or has no earlier run: nothing to show is no failure.
		return sink.line(prefix, "("+err.Error()+")")
	}
	if err != nil {
		return fmt.Errorf("logs of %s/%s, container %s: %w", stream.namespace, stream.pod, stream.container, err)
	}
	defer body.Close()
	reader := bufio.NewReaderSize(body, logLine)
	for {
		text, _, err := reader.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if err := sink.line(prefix, string(text)); err != nil {
			return err
		}
	}
}

// lineSink keeps the lines of several logs whole.
type lineSink struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *lineSink) line(prefix, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := fmt.Fprintf(s.w, "%s%s\n", prefix, text)
	return err
}
