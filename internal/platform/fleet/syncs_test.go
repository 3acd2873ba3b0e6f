package fleet_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// synced is an application with a sync that ended before a time.
func synced(number int64, revision string, ago time.Duration) *platformv1.ReportEvent {
	event := application(number, "shop")
	at := time.Now().Add(-ago)
	event.GetApplication().Project = "sea"
	event.GetApplication().Syncs = []*platformv1.ReportedSync{{
		Revision: revision, StartedAt: timestamppb.New(at.Add(-time.Second)), FinishedAt: timestamppb.New(at), CommittedAt: timestamppb.New(at.Add(-time.Hour)),
		Succeeded: true, Initiator: "ada",
	}}
	return event
}

// TestReportedSyncs: syncs of a report become deployments of the runtime, once, unless
// they are older than the retention; the state of the application does not have them.
func TestReportedSyncs(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		old, event := synced(2, "a", retention+time.Minute), synced(2, "a", retention-time.Hour)
		report(t, agent, "s", begin(1), old, end(3))
		report(t, agent, "t", begin(1), event, end(3))
		report(t, agent, "t", begin(1), event, end(3))
		report(t, agent, "u", begin(1), event, end(3), synced(4, "b", time.Minute))
		all, _, err := w.store.NewestDeployments(t.Context(), w.accountID, store.DeploymentFilter{})
		if err != nil || len(all) != 2 || all[0].Revision != "b" || all[0].PreviousRevision != "a" || all[0].Project != "sea" || all[0].Initiator != "ada" ||
			all[1].Revision != "a" || all[1].FinishedAt.Sub(all[1].CommittedAt) != time.Hour {
			t.Errorf("got %+v, %v", all, err)
		}
		for _, application := range listApplications(t, w, &platformv1.ListApplicationsRequest{}).GetApplications() {
			if len(application.GetSyncs()) > 0 {
				t.Errorf("the application has %v", application.GetSyncs())
			}
		}
		many := application(5, "shop")
		many.GetApplication().Syncs = make([]*platformv1.ReportedSync, store.MaxSyncs+1)
		for i := range many.GetApplication().GetSyncs() {
			many.GetApplication().Syncs[i] = &platformv1.ReportedSync{}
		}
		_, err = agent.agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "u", Events: []*platformv1.ReportEvent{many}}))
		wantError(t, "too many syncs", err, connect.CodeInvalidArgument, "51 syncs")
	})
}
