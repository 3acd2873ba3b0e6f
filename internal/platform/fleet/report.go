package fleet

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// ReportTraffic stores what an edge of a runtime has counted. The runtime comes
// from the token, so that an agent cannot add to the sums of another one.
func (a agentService) ReportTraffic(ctx context.Context, request *connect.Request[platformv1.ReportTrafficRequest]) (*connect.Response[platformv1.ReportTrafficResponse], error) {
	who, err := agent(ctx)
	if err != nil {
		return nil, err
	}
	if a.options.RecordTraffic == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this platform keeps no history of traffic"))
	}
	if err := a.options.RecordTraffic(ctx, who.RuntimeID, request.Msg); err != nil {
		return nil, a.apiError(err)
	}
	return connect.NewResponse(&platformv1.ReportTrafficResponse{}), nil
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
		change, err := f.reportChange(event, who.Name)
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
func (f *Fleet) reportChange(event *platformv1.ReportEvent, runtime string) (store.ReportChange, error) {
	change := store.ReportChange{Number: event.GetNumber()}
	switch heartbeatUpdate := event.GetEvent().(type) {
	case *platformv1.ReportEvent_Application:
		syncs, err := f.storedSyncs(heartbeatUpdate.Application)
		if err != nil {
			return change, err
		}
		if change.Application, err = storedApplication(heartbeatUpdate.Application, event, runtime); err == nil {
			change.Application.Syncs = syncs
		}
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
	// Runtime and staleness are computed when the application is read; stored
	// values would become outdated.
	// Syncs are stored as deployments.
	given.Runtime, given.Stale, given.Syncs = runtime, false, nil
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
		SeenAt: given.GetSeenAt().AsTime(), State: state, Project: given.GetProject(),
	}, nil
}

// storedSyncs converts the syncs of an application. Those beyond the retention
// are left out: an application that is rarely deployed reports them for years,
// after they were deleted.
func (f *Fleet) storedSyncs(given *platformv1.Application) ([]store.Sync, error) {
	if len(given.GetSyncs()) > store.MaxSyncs {
		return nil, invalid("application %q has %d syncs; at most %d are possible", given.GetName(), len(given.GetSyncs()), store.MaxSyncs)
	}
	var syncs []store.Sync
	for _, sync := range given.GetSyncs() {
		if kept := f.options.DeploymentRetention; kept > 0 && sync.GetFinishedAt().AsTime().Before(f.now().Add(-kept)) {
			continue
		}
		syncs = append(syncs, store.Sync{
			Revision: sync.GetRevision(), PreviousRevision: sync.GetPreviousRevision(),
			StartedAt: timeOf(sync.GetStartedAt()), FinishedAt: timeOf(sync.GetFinishedAt()), CommittedAt: timeOf(sync.GetCommittedAt()),
			Succeeded: sync.GetSucceeded(), Automated: sync.GetAutomated(), Initiator: sync.GetInitiator(), Message: sync.GetMessage(),
		})
	}
	return syncs, nil
}

// timeOf converts a timestamp; an absent or invalid one is the zero time, and
// not the beginning of 1970.
func timeOf(at *timestamppb.Timestamp) time.Time {
	if !at.IsValid() {
		return time.Time{}
	}
	return at.AsTime()
}
