package appproxy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// ComponentSelector finds the Pods of a runtime in its namespace.
	ComponentSelector = "app.kubernetes.io/part-of=slipway"
	// componentLabel names the component of a Pod.
	componentLabel = "app.kubernetes.io/component"

	// Limits of an archive: Pods, bytes of one container, bytes of all, lines
	// of one container, and bytes of one message.
	maxComponents  = 200
	containerBytes = 8 << 20
	archiveBytes   = 256 << 20
	archiveTail    = 100_000
	archivePiece   = 64 << 10
)

// GetInfo returns name, version and state of the runtime.
func (s *Service) GetInfo(context.Context, *connect.Request[runtimev1.GetInfoRequest]) (*connect.Response[runtimev1.GetInfoResponse], error) {
	response := &runtimev1.GetInfoResponse{Namespace: s.options.ControlNamespace}
	if s.options.Info != nil {
		info := s.options.Info()
		response = &runtimev1.GetInfoResponse{
			Name: info.Name, Version: info.Version, Namespace: info.Namespace, KubernetesVersion: info.KubernetesVersion, Leading: info.Leading,
		}
	}
	return connect.NewResponse(response), nil
}

// ConfigureAsApplication makes the runtime manage itself by an Application.
func (s *Service) ConfigureAsApplication(ctx context.Context, _ *connect.Request[runtimev1.ConfigureAsApplicationRequest]) (*connect.Response[runtimev1.ConfigureAsApplicationResponse], error) {
	if s.options.Configure == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("this runtime has no Shared Configuration Repository to be configured in"))
	}
	application, commit, err := s.options.Configure(ctx)
	if err != nil {
		return nil, s.toConnectError(sharedrepo.ToConnectError(err), tracking.App{Namespace: s.options.ControlNamespace})
	}
	return connect.NewResponse(&runtimev1.ConfigureAsApplicationResponse{Application: application, Commit: commit}), nil
}

// ComponentLogs streams the logs of the runtime's own Pods: the lines of one
// component, or a tar.gz of all in chunks.
func (s *Service) ComponentLogs(ctx context.Context, request *connect.Request[runtimev1.ComponentLogsRequest], stream *connect.ServerStream[runtimev1.ComponentLogsResponse]) error {
	leave, err := s.tryAcquire(s.following)
	if err != nil {
		return err
	}
	defer leave()
	// The Pods are listed by our label in our own namespace: no user names
	// them.
	pods, err := s.components(ctx, request.Msg.GetComponent())
	if err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if request.Msg.GetComponent() != "" {
		err = s.componentLines(reading, pods, request.Msg.GetTailLines(), stream)
	} else {
		err = s.componentArchive(reading, pods, request.Msg.GetTailLines(), stream)
	}
	if ctx.Err() != nil {
		return s.streamEnd(ctx)
	}
	return s.toConnectError(err, tracking.App{Namespace: s.options.ComponentNamespace})
}

// components lists the runtime's own Pods, or those of one component, sorted by
// name.
func (s *Service) components(ctx context.Context, component string) ([]corev1.Pod, error) {
	listing, cancel := context.WithTimeout(ctx, inspect.RequestTimeout)
	defer cancel()
	found, err := s.options.Cluster.Client.CoreV1().Pods(s.options.ComponentNamespace).
		List(listing, metav1.ListOptions{LabelSelector: s.options.ComponentSelector, Limit: maxComponents})
	if err != nil {
		return nil, s.toConnectError(err, tracking.App{Namespace: s.options.ComponentNamespace})
	}
	if len(found.Items) == 0 {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("the runtime has no Pods: it runs as processes, and their logs are where they were started"))
	}
	var pods []corev1.Pod
	var known []string
	for _, pod := range found.Items {
		// The names are for the error message.
		known = append(known, pod.Labels[componentLabel])
		if component == "" || pod.Labels[componentLabel] == component {
			pods = append(pods, pod)
		}
	}
	// The error lists the components that exist.
	if len(pods) == 0 && component != "" {
		slices.Sort(known)
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no component of the runtime is named %s: there are %s", component, strings.Join(slices.Compact(known), ", ")))
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// componentLines sends the lines of some Pods, merged by time. Streams beyond
// the bound are left out rather than refused: the logs of most Pods are better
// than none.
func (s *Service) componentLines(ctx context.Context, pods []corev1.Pod, tail int64, stream *connect.ServerStream[runtimev1.ComponentLogsResponse]) error {
	var streams []inspect.LogStream
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			streams = append(streams, inspect.LogStream{Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name})
		}
	}
	// Each stream is a request to the API server.
	if len(streams) > inspect.MaxStreams {
		streams = streams[:inspect.MaxStreams]
	}
	if tail <= 0 {
		tail = defaultTail
	}
	options := inspect.LogOptions{Tail: tail, Bytes: containerBytes, Timestamps: true}
	return mergeByTime(ctx, readAll(ctx, s.inspector, streams, options), func(line inspect.LogLineOf) error {
		text := line.Text
		if !line.At.IsZero() {
			text = line.At.Format(time.RFC3339Nano) + " " + text
		}
		return stream.Send(&runtimev1.ComponentLogsResponse{Pod: line.Stream.Pod, Data: []byte(text)})
	})
}

// chunkWriter sends the bytes written to it in messages of bounded size.
type chunkWriter struct {
	stream *connect.ServerStream[runtimev1.ComponentLogsResponse]
}

// Write sends the data in chunks and returns how much was sent.
func (p chunkWriter) Write(data []byte) (int, error) {
	sent := 0
	for piece := range slices.Chunk(data, archivePiece) {
		if err := p.stream.Send(&runtimev1.ComponentLogsResponse{Data: piece}); err != nil {
			return sent, err
		}
		sent += len(piece)
	}
	return sent, nil
}

// componentArchive sends the logs of all containers as one archive. It holds
// one log in memory at a time, because tar needs the size first.
func (s *Service) componentArchive(ctx context.Context, pods []corev1.Pod, tail int64, stream *connect.ServerStream[runtimev1.ComponentLogsResponse]) error {
	if tail <= 0 {
		tail = archiveTail
	}
	packed := gzip.NewWriter(chunkWriter{stream})
	archive := tar.NewWriter(packed)
	left := int64(archiveBytes)
	for _, pod := range pods {
		for _, file := range logFiles(&pod) {
			// The archive is cut at its limit and stays readable.
			if left <= 0 {
				break
			}
			options := inspect.LogOptions{Tail: tail, Bytes: min(containerBytes, left), Previous: file.previous}
			size, err := s.archiveLog(ctx, archive, file, options)
			if err != nil {
				return err
			}
			left -= size
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

// logFile is one log in an archive.
type logFile struct {
	stream inspect.LogStream
	// previous selects the instance before the last restart.
	previous bool
}

// logFiles lists the logs of a Pod: those of all containers, and those of
// instances before the last restart.
func logFiles(pod *corev1.Pod) []logFile {
	var files []logFile
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		files = append(files, logFile{stream: inspect.LogStream{Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name}})
	}
	// Logs before a restart are what explains a crash.
	for _, status := range pod.Status.ContainerStatuses {
		if status.RestartCount > 0 {
			files = append(files, logFile{stream: inspect.LogStream{Namespace: pod.Namespace, Pod: pod.Name, Container: status.Name}, previous: true})
		}
	}
	return files
}

// name is the path in the archive.
func (f logFile) name() string {
	name := f.stream.Pod + "/" + f.stream.Container
	if f.previous {
		name += ".previous"
	}
	return name + ".log"
}

// archiveLog adds one log to the archive and returns its size. An error of
// reading it becomes its content: the other logs are still useful.
func (s *Service) archiveLog(ctx context.Context, archive *tar.Writer, file logFile, options inspect.LogOptions) (int64, error) {
	var text bytes.Buffer
	err := s.inspector.ReadLog(ctx, file.stream, options, func(line inspect.LogLineOf) error {
		text.WriteString(line.Text)
		return text.WriteByte('\n')
	})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		_, _ = fmt.Fprintf(&text, "(%v)\n", err)
	}
	size := int64(text.Len())
	// tar needs the size before the content, so that one log is buffered.
	header := &tar.Header{Name: file.name(), Mode: 0o600, Size: size, Typeflag: tar.TypeReg, ModTime: time.Now()}
	if err := archive.WriteHeader(header); err != nil {
		return 0, err
	}
	_, err = io.Copy(archive, &text)
	return size, err
}
