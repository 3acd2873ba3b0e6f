package fleet

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// maxEvents bounds a report; an agent sends the remaining events with the
	// next one.
	maxEvents = 1000
	// maxApplication bounds the state of one application.
	maxApplication = 256 << 10
	// maxStreamName bounds the name of a stream.
	maxStreamName = 128
)

// Report stores the changes of a runtime's applications. The response is sent
// after the commit, so the agent can drop what is acknowledged.
func (a agentService) Report(ctx context.Context, request *connect.Request[platformv1.ReportRequest]) (*connect.Response[platformv1.ReportResponse], error) {
	response, err := a.report(ctx, request.Msg)
	label := outcome(err)
	if response.GetResync() {
		label = "resync"
	}
	a.metrics.reports.WithLabelValues(label).Inc()
	if err != nil {
		return nil, a.apiError(err)
	}
	a.metrics.events.Add(float64(len(request.Msg.GetEvents())))
	return connect.NewResponse(response), nil
}

// report validates all events before it stores any of them.
func (f *Fleet) report(ctx context.Context, given *platformv1.ReportRequest) (*platformv1.ReportResponse, error) {
	who, err := agent(ctx)
	if err != nil {
		return nil, err
	}
	if given.GetStream() == "" || len(given.GetStream()) > maxStreamName {
		return nil, invalid("a report needs the name of its stream, with at most %d characters", maxStreamName)
	}
	if len(given.GetEvents()) > maxEvents {
		return nil, invalid("the report has %d events; at most %d are possible", len(given.GetEvents()), maxEvents)
	}
	var changes []store.ReportChange
	for _, event := range given.GetEvents() {
		change, err := reportChange(event, who.Name)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	cursor, err := f.store.ApplyReport(ctx, who.RuntimeID, given.GetStream(), changes)
	if err != nil {
		return nil, err
	}
	return &platformv1.ReportResponse{Stored: cursor.Stored, Resync: cursor.Gap}, nil
}

// reportChange converts an event for the store. The runtime of an application
// comes from the token, never from the message.
func reportChange(event *platformv1.ReportEvent, runtime string) (store.ReportChange, error) {
	change := store.ReportChange{Number: event.GetNumber()}
	switch heartbeatUpdate := event.GetEvent().(type) {
	case *platformv1.ReportEvent_Application:
		application, err := storedApplication(heartbeatUpdate.Application, event, runtime)
		change.Application = application
		return change, err
	case *platformv1.ReportEvent_Deleted:
		if heartbeatUpdate.Deleted.GetName() == "" {
			return change, invalid("event %d deletes an application without a name", event.GetNumber())
		}
		change.Deleted = &store.ApplicationRef{
			Namespace: heartbeatUpdate.Deleted.GetNamespace(), Name: heartbeatUpdate.Deleted.GetName(), UID: heartbeatUpdate.Deleted.GetUid(),
		}
	case *platformv1.ReportEvent_ResyncBegin:
		change.ResyncBegin = true
	case *platformv1.ReportEvent_ResyncEnd:
		change.ResyncEnd = true
	default:
		return change, invalid("event %d has an unknown type", event.GetNumber())
	}
	return change, nil
}

// storedApplication validates and encodes an application. The encoding is
// deterministic, so that equal states have equal bytes.
func storedApplication(given *platformv1.Application, event *platformv1.ReportEvent, runtime string) (*store.Application, error) {
	if given.GetName() == "" || len(given.GetName()) > maxField || len(given.GetNamespace()) > maxField {
		return nil, invalid("event %d has an application without a name, or with one that is too long", event.GetNumber())
	}
	// Both fields are computed when the application is read; stored values
	// would become outdated.
	given.Runtime, given.Stale = runtime, false
	if given.GetSeenAt() == nil {
		given.SeenAt = event.GetAt()
	}
	state, err := proto.MarshalOptions{Deterministic: true}.Marshal(given)
	if err != nil {
		return nil, invalid("event %d cannot be stored: %w", event.GetNumber(), err)
	}
	if len(state) > maxApplication {
		return nil, invalid("the application of event %d has %d bytes; at most %d are possible", event.GetNumber(), len(state), maxApplication)
	}
	return &store.Application{
		Namespace: given.GetNamespace(), Name: given.GetName(), UID: given.GetUid(),
		Sync: given.GetSync(), Health: given.GetHealth(), Cluster: given.GetCluster(),
		DestinationNamespace: given.GetDestinationNamespace(), Labels: given.GetLabels(),
		SeenAt: given.GetSeenAt().AsTime(), State: state,
	}, nil
}
