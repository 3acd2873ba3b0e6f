package appproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// defaultTail is the number of lines of each container that are sent by
	// default.
	defaultTail = 1000
	// logBytes bounds a request that does not follow, over all containers.
	logBytes = 64 << 20
	// logQueue is the number of lines of one container that wait to be sent. A
	// slow client holds up the streams of its own containers and nothing else.
	logQueue = 16
	// maxChosen bounds the objects of a request.
	maxChosen = 100
)

// Logs streams the logs of an Application's containers: merged by time, or in
// the order of arrival when they are followed. A filter selects the lines that
// contain its text.
func (s *Service) Logs(ctx context.Context, request *connect.Request[runtimev1.LogsRequest], stream *connect.ServerStream[runtimev1.LogsResponse]) error {
	return s.StreamLogs(ctx, request.Msg, stream.Send)
}

// StreamLogs is Logs for a caller in this process.
func (s *Service) StreamLogs(ctx context.Context, message *runtimev1.LogsRequest, sendLine func(*runtimev1.LogsResponse) error) error {
	leave, err := s.tryAcquire(s.following)
	if err != nil {
		return err
	}
	defer leave()
	app, err := s.application(ctx, message.GetRef())
	if err != nil {
		return err
	}
	at, err := s.target(app)
	if err != nil {
		return err
	}
	// The containers come from the tree of the Application, so that a request
	// cannot name others.
	streams, err := s.logStreams(ctx, app, message)
	if err != nil {
		return err
	}
	options := inspect.LogOptions{
		Follow: message.GetFollow(), Previous: message.GetPrevious(), Since: message.GetSince().AsDuration(), Timestamps: true, Tail: message.GetTailLines(),
	}
	options.Tail = cmp.Or(options.Tail, defaultTail)
	if !options.Follow {
		// Each container gets the same share of the limit.
		options.Bytes = int64(logBytes / len(streams))
	}
	send := func(line inspect.LogLineOf) error {
		if filter := message.GetFilter(); filter != "" && !strings.Contains(line.Text, filter) {
			return nil
		}
		return sendLine(lineOf(line))
	}
	// All readers end when one send fails.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if options.Follow {
		err = mergeAsWritten(reading, readAll(reading, s.strictFor(at).Inspector, streams, options), send)
	} else {
		err = mergeByTime(reading, readAll(reading, s.strictFor(at).Inspector, streams, options), send)
	}
	if ctx.Err() != nil {
		return s.streamEnd(ctx)
	}
	return s.toConnectError(err, app.ID())
}

// tryAcquire takes a slot of a semaphore or fails at once. Streams hold their
// slot for long, so that waiting would only time out.
func (s *Service) tryAcquire(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many logs of this runtime are read: try again later"))
	}
}

// lineOf converts a line to its message. Logs are arbitrary bytes, and protobuf
// strings must be UTF-8.
func lineOf(line inspect.LogLineOf) *runtimev1.LogsResponse {
	return &runtimev1.LogsResponse{
		Pod: line.Stream.Pod, Container: line.Stream.Container, Line: strings.ToValidUTF8(line.Text, "\uFFFD"), At: wire.Timestamp(line.At),
	}
}

// logStreams returns the containers that a request selects. All of them belong
// to the Application.
func (s *Service) logStreams(ctx context.Context, app *inspect.Application, request *runtimev1.LogsRequest) ([]inspect.LogStream, error) {
	tree, err := s.tree(ctx, app)
	if err != nil {
		return nil, err
	}
	objects := request.GetObjects()
	if request.GetObject() != nil {
		objects = append(objects, request.GetObject())
	}
	if len(objects) > maxChosen {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("logs are for at most %d objects: leave objects empty for all", maxChosen))
	}
	chosen, err := selectInTree(tree, app, objects)
	if err != nil {
		return nil, err
	}
	pods, err := tree.Pods(chosen)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	// Merging by time reads all containers at once, so that the limit for
	// followed logs holds for it too.
	streams, err := inspect.Streams(app.ID(), pods, request.GetContainer(), true)
	return streams, s.toConnectError(err, app.ID())
}

// selectInTree finds the objects of a request in the tree. A UID must match
// where one is given: another object may have the name by now.
func selectInTree(tree *inspect.Tree, app *inspect.Application, objects []*runtimev1.ObjectRef) ([]tracking.Key, error) {
	var chosen []tracking.Key
	for _, ref := range objects {
		key, found := keyOf(ref), false
		tree.Root.Walk(func(node, _ *inspect.Node) {
			found = found || node.Key() == key && (ref.GetUid() == "" || string(node.UID) == ref.GetUid())
		})
		if !found {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), key))
		}
		chosen = append(chosen, key)
	}
	return chosen, nil
}

// readAll starts to read all containers.
func readAll(ctx context.Context, from *inspect.Inspector, streams []inspect.LogStream, options inspect.LogOptions) []<-chan inspect.LogLineOf {
	var all []<-chan inspect.LogLineOf
	for _, stream := range streams {
		all = append(all, readOne(ctx, from, stream, options))
	}
	return all
}

// readOne reads one container into a channel and closes it at the end. An error
// becomes a line of the log, so that the other containers go on.
func readOne(ctx context.Context, from *inspect.Inspector, stream inspect.LogStream, options inspect.LogOptions) <-chan inspect.LogLineOf {
	lines := make(chan inspect.LogLineOf, logQueue)
	put := func(line inspect.LogLineOf) error {
		select {
		case lines <- line:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		defer close(lines)
		err := from.ReadLog(ctx, stream, options, put)
		if err != nil && ctx.Err() == nil {
			// Only errors that are meant for users are quoted.
			text := "(the log cannot be read any more)"
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				text = "(" + err.Error() + ")"
			}
			_ = put(inspect.LogLineOf{Stream: stream, Text: text})
		}
	}()
	return lines
}

// mergeAsWritten sends the lines of all containers in the order of arrival.
// Readers end with the context or with their log; the result does not wait for
// readers after an error of send, because the caller then cancels the context.
func mergeAsWritten(ctx context.Context, containers []<-chan inspect.LogLineOf, send func(inspect.LogLineOf) error) error {
	all := make(chan inspect.LogLineOf)
	// Buffered for all readers, so that none blocks after this function has
	// returned.
	ended := make(chan struct{}, len(containers))
	for _, lines := range containers {
		go func() {
			defer func() { ended <- struct{}{} }()
			for line := range lines {
				select {
				case all <- line:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for open := len(containers); open > 0; {
		select {
		case line := <-all:
			if err := send(line); err != nil {
				return err
			}
		case <-ended:
			open--
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// mergeByTime sends the lines of all containers ordered by time. It holds one
// line of each container. A container without a line blocks the merge, so it is
// only for logs that end.
func mergeByTime(ctx context.Context, containers []<-chan inspect.LogLineOf, send func(inspect.LogLineOf) error) error {
	type head struct {
		line  inspect.LogLineOf
		lines <-chan inspect.LogLineOf
	}
	var heads []*head
	for _, lines := range containers {
		heads = append(heads, &head{lines: lines})
	}
	// next reads the next line of one container, and removes the container at
	// its end.
	next := func(i int) {
		line, more := <-heads[i].lines
		if !more {
			heads = append(heads[:i], heads[i+1:]...)
			return
		}
		heads[i].line = line
	}
	for i := len(heads) - 1; i >= 0; i-- {
		next(i)
	}
	for len(heads) > 0 {
		first := 0
		for i := range heads {
			if heads[i].line.At.Before(heads[first].line.At) {
				first = i
			}
		}
		if err := send(heads[first].line); err != nil {
			return err
		}
		next(first)
	}
	return ctx.Err()
}
