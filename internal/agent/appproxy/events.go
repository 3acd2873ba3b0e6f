package appproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxEventViewers bounds the streams of Events. Each has a watch of its own.
const maxEventViewers = 128

// eventSource selects the Events about one object. Events are selected by UID,
// so that those of an earlier object with the same name are left out.
type eventSource struct {
	about    *unstructured.Unstructured
	client   typedcorev1.EventInterface
	selected metav1.ListOptions
}

// ListEvents returns the Events about an Application or one of its objects. The
// limit applies at the API server, which does not sort by time; list sorts what
// it returned.
func (s *Service) ListEvents(ctx context.Context, request *connect.Request[runtimev1.ListEventsRequest]) (*connect.Response[runtimev1.ListEventsResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	source, err := s.eventsOf(ctx, app, request.Msg.GetObject())
	if err != nil {
		return nil, err
	}
	selected := source.selected
	selected.Limit = maxEvents
	found, err := source.client.List(ctx, selected)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	events := make([]*corev1.Event, 0, len(found.Items))
	for i := range found.Items {
		events = append(events, &found.Items[i])
	}
	return connect.NewResponse(source.list(events)), nil
}

// WatchEvents streams the Events about an Application or one of its objects:
// the list now and after each change.
func (s *Service) WatchEvents(ctx context.Context, request *connect.Request[runtimev1.WatchEventsRequest], stream *connect.ServerStream[runtimev1.WatchEventsResponse]) error {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return err
	}
	source, err := s.eventsOf(ctx, app, request.Msg.GetObject())
	if err != nil {
		return err
	}
	// Each viewer has a watch at the API server.
	if s.eventViewers.Add(1) > maxEventViewers {
		s.eventViewers.Add(-1)
		return connect.NewError(connect.CodeResourceExhausted, errors.New("too many people follow events of this runtime: try again later"))
	}
	defer s.eventViewers.Add(-1)
	// The watch must end before the handler returns, as it sends to its
	// channel.
	ctx, stop := context.WithCancel(ctx)
	lists, ended := source.follow(ctx)
	defer func() {
		stop()
		<-ended
	}()
	alive := time.NewTicker(keepaliveInterval)
	defer alive.Stop()
	for {
		message := &runtimev1.WatchEventsResponse{}
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-alive.C:
		case message.List = <-lists:
		}
		if err := stream.Send(message); err != nil {
			return s.toConnectError(err, app.ID())
		}
	}
}

// eventsOf returns the source of Events about an Application, or about one of
// its objects in the cluster that has it.
func (s *Service) eventsOf(ctx context.Context, app *inspect.Application, ref *runtimev1.ObjectRef) (*eventSource, error) {
	about, at := app.Object, Target{Cluster: s.options.Cluster}
	if ref != nil {
		var err error
		// The object must belong to the Application: Events can reveal names
		// and messages.
		if about, err = s.object(ctx, app, ref); err != nil {
			return nil, err
		}
		if about == nil {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), keyOf(ref)))
		}
		if at, err = s.target(app); err != nil {
			return nil, err
		}
	}
	// The API server stores Events of cluster-scoped objects in the namespace
	// default.
	namespace := cmp.Or(about.GetNamespace(), metav1.NamespaceDefault) // of what has none
	return &eventSource{
		about: about, client: at.Cluster.Client.CoreV1().Events(namespace),
		selected: metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(about.GetUID())).String()},
	}, nil
}

// follow sends the list now and after each change until the context is done.
// The channel holds the latest list only: a slow receiver skips lists and never
// blocks the watch. ended is closed after the last send.
func (e *eventSource) follow(ctx context.Context) (lists <-chan *runtimev1.ListEventsResponse, ended <-chan struct{}) {
	latest, done := make(chan *runtimev1.ListEventsResponse, 1), make(chan struct{})
	go func() {
		defer close(done)
		// Follow retries by itself and ends with the context alone.
		_ = kube.Follow(ctx, e.client, e.selected, nil, func(events []*corev1.Event) {
			list := e.list(events)
			select {
			case <-latest: // drop the list that was not received
			default:
			}
			latest <- list
		})
	}()
	return latest, done
}

// list converts the newest events to a message, the newest first.
func (e *eventSource) list(events []*corev1.Event) *runtimev1.ListEventsResponse {
	key := tracking.KeyOf(e.about)
	secret := key.Group == "" && key.Kind == "Secret"
	response := &runtimev1.ListEventsResponse{}
	for _, event := range events {
		message := eventOf(event)
		message.Object = objectRef(key, e.about.GroupVersionKind().Version, e.about.GetUID())
		if secret {
			// The message is written by other controllers, which might quote a
			// value.
			message.Message = "" // others write it, and might quote a value
		}
		response.Events = append(response.Events, message)
	}
	slices.SortFunc(response.Events, func(a, b *runtimev1.ObjectEvent) int {
		return b.GetLastSeenAt().AsTime().Compare(a.GetLastSeenAt().AsTime())
	})
	response.Events = response.Events[:min(len(response.Events), maxEvents)]
	return response
}

// eventOf converts an Event. Those of the events.k8s.io API have a series in
// the place of count and last timestamp.
func eventOf(event *corev1.Event) *runtimev1.ObjectEvent {
	last, count := event.LastTimestamp.Time, event.Count
	// events.k8s.io/v1 counts in a series.
	if event.Series != nil {
		last, count = event.Series.LastObservedTime.Time, event.Series.Count
	}
	if last.IsZero() {
		last = cmp.Or(event.EventTime.Time, event.CreationTimestamp.Time)
	}
	return &runtimev1.ObjectEvent{
		Type: event.Type, Reason: event.Reason, Message: event.Message, Count: max(count, 1),
		LastSeenAt: timestamppb.New(last), Source: cmp.Or(event.Source.Component, event.ReportingController),
	}
}
