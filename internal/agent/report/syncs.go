package report

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// maxSyncs bounds the syncs of an event; the platform accepts no more.
	maxSyncs       = 50
	maxSyncMessage = 1 << 10
	// commitTimeout bounds the lookups of commits for one batch of events.
	// Commits that take longer are not known: reports must not wait for Git.
	commitTimeout = 2 * time.Second
	// maxCommitTimes bounds the cache of commit times; at the limit it is
	// emptied.
	maxCommitTimes = 20_000
)

// syncsOf returns the last complete syncs of an Application that ended, the
// oldest first. The history in the status has those that succeeded, and the
// state of the operation the last one that failed. The platform knows which
// ones it has: an event that is lost or merged loses none of them as long as
// the status has them.
func syncsOf(app *v1alpha1.Application) []*platformv1.ReportedSync {
	history := app.Status.History
	var syncs []*platformv1.ReportedSync
	previous := ""
	for i := range history {
		entry := &history[i]
		sync := &platformv1.ReportedSync{
			Revision: boundedWord(revision(entry.Revision, entry.Revisions)), PreviousRevision: previous,
			StartedAt: timestamppb.New(entry.DeployedAt.Time), FinishedAt: timestamppb.New(entry.DeployedAt.Time),
			Succeeded: true, Automated: entry.InitiatedBy.Automated, Initiator: boundedWord(entry.InitiatedBy.Username),
		}
		if entry.DeployStartedAt != nil {
			sync.StartedAt = timestamppb.New(entry.DeployStartedAt.Time)
		}
		syncs = append(syncs, sync)
		previous = sync.GetRevision()
	}
	if last := lastSync(app.Status.OperationState, previous); last != nil {
		// An entry of the history is the better one: it has the sync before.
		syncs = mergeSyncs([]*platformv1.ReportedSync{last}, syncs)
	}
	return syncs[max(0, len(syncs)-maxSyncs):]
}

// lastSync returns the operation of a status if it is a complete sync that
// ended. Dry runs and syncs of single objects deploy no revision.
func lastSync(state *v1alpha1.OperationState, previous string) *platformv1.ReportedSync {
	if state == nil || state.FinishedAt == nil || state.Operation.Sync == nil || state.SyncResult == nil {
		return nil
	}
	if sync := state.Operation.Sync; sync.DryRun || len(sync.Resources) > 0 {
		return nil
	}
	last := &platformv1.ReportedSync{
		Revision: boundedWord(revision(state.SyncResult.Revision, state.SyncResult.Revisions)), PreviousRevision: previous,
		StartedAt: timestamppb.New(state.StartedAt.Time), FinishedAt: timestamppb.New(state.FinishedAt.Time),
		Automated: state.Operation.InitiatedBy.Automated, Initiator: boundedWord(state.Operation.InitiatedBy.Username),
	}
	switch state.Phase {
	case v1alpha1.OperationSucceeded:
		last.Succeeded = true
	case v1alpha1.OperationFailed, v1alpha1.OperationError:
		last.Message = cut(redact(state.Message), maxSyncMessage)
	default:
		return nil
	}
	return last
}

// syncKey identifies a sync of an Application. The start has whole seconds, as
// the times of a status have.
type syncKey struct {
	started  int64
	revision string
}

// mergeSyncs returns the syncs of two events of one Application, each once and
// the oldest first. Those of the newer event win.
func mergeSyncs(older, newer []*platformv1.ReportedSync) []*platformv1.ReportedSync {
	key := func(sync *platformv1.ReportedSync) syncKey {
		return syncKey{sync.GetStartedAt().AsTime().Unix(), sync.GetRevision()}
	}
	merged := slices.Clone(newer)
	for _, sync := range older {
		at := slices.IndexFunc(merged, func(other *platformv1.ReportedSync) bool { return key(other) == key(sync) })
		if at < 0 {
			merged = append(merged, sync)
		} else if merged[at].GetCommittedAt() == nil {
			merged[at].CommittedAt = sync.GetCommittedAt()
		}
	}
	slices.SortStableFunc(merged, func(a, b *platformv1.ReportedSync) int {
		return a.GetFinishedAt().AsTime().Compare(b.GetFinishedAt().AsTime())
	})
	return merged[max(0, len(merged)-maxSyncs):]
}

// commitKey identifies a revision of an Application.
type commitKey struct {
	app      appID
	revision string
}

// addCommitTimes looks up when the newest commit of each changed Application was
// made. Each is looked up once: the cache also has those without a commit, such
// as versions of charts.
func (r *Reporter) addCommitTimes(ctx context.Context, events []*platformv1.ReportEvent) {
	if r.options.CommitTime == nil || len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	for _, event := range events {
		syncs := event.GetApplication().GetSyncs()
		if len(syncs) == 0 || !syncs[len(syncs)-1].GetSucceeded() {
			continue
		}
		last := syncs[len(syncs)-1]
		key := commitKey{appIDOf(event.GetApplication()), last.GetRevision()}
		at, known := r.commitTimes[key]
		if !known {
			var err error
			if at, err = r.options.CommitTime(ctx, key.app.Namespace, key.app.Name, key.revision); err != nil {
				continue // the next event of the Application tries again
			}
			if r.commitTimes == nil || len(r.commitTimes) >= maxCommitTimes {
				r.commitTimes = map[commitKey]time.Time{}
			}
			r.commitTimes[key] = at
		}
		if !at.IsZero() {
			last.CommittedAt = timestamppb.New(at)
		}
	}
}
