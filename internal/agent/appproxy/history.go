package appproxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// commitPatience is how long commits are looked for: a history without their
	// messages is of use too.
	commitPatience = 5 * time.Second
	// mostEvents bounds an answer.
	mostEvents = 500
)

// GetHistory is the past syncs of an Application.
func (s *Service) GetHistory(ctx context.Context, request *connect.Request[runtimev1.GetHistoryRequest]) (*connect.Response[runtimev1.GetHistoryResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	looking, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	// The history is in the status, which others can write: a commit is told only of
	// repositories that the project allows.
	charter := s.charter(looking, app)
	answer := &runtimev1.GetHistoryResponse{}
	for i := range app.Status.History {
		entry := &app.Status.History[i]
		told := &runtimev1.HistoryEntry{
			Id: entry.ID, Revision: cmp.Or(entry.Revision, strings.Join(entry.Revisions, ",")),
			InitiatedBy: entry.InitiatedBy.Username, Automated: entry.InitiatedBy.Automated,
		}
		if !entry.DeployedAt.IsZero() {
			told.DeployedAt = timestamppb.New(entry.DeployedAt.Time)
		}
		if commit := s.commit(looking, charter, entry); commit != nil {
			told.CommitAuthor, told.CommitMessage, told.CommitAt = commit.Author, commit.Message, timestamppb.New(commit.When)
		}
		answer.Entries = append(answer.Entries, told)
	}
	return connect.NewResponse(answer), nil
}

// charter is the project of an Application; nil if it does not allow it.
func (s *Service) charter(ctx context.Context, app *inspect.Application) *project.Project {
	at, err := s.target(app)
	if err != nil {
		return nil
	}
	charter, err := s.strict.Charter(ctx, app, at.called(app))
	if err != nil {
		return nil
	}
	return charter
}

// commit finds what is told of a past sync, if it was of one repository.
func (s *Service) commit(ctx context.Context, charter *project.Project, entry *v1alpha1.RevisionHistory) *source.Commit {
	if charter == nil || s.options.Sources == nil || entry.Source == nil || entry.Source.Chart != "" || entry.Revision == "" {
		return nil
	}
	if charter.AllowsSource(entry.Source.RepoURL) != nil || ctx.Err() != nil {
		return nil
	}
	commit, err := s.options.Sources.Commit(ctx, entry.Source.RepoURL, entry.Revision)
	if err != nil {
		return nil
	}
	return commit
}

// Commit tells of a revision that an Application was synced to; nil if nothing may
// be told.
func (s *Service) Commit(ctx context.Context, place tracking.App, revision string) (*source.Commit, error) {
	if !s.reads(place.Namespace) {
		return nil, notFound(place)
	}
	app, err := s.inspector.Get(ctx, place)
	if err != nil {
		return nil, err
	}
	for i := len(app.Status.History) - 1; i >= 0; i-- {
		if app.Status.History[i].Revision == revision {
			return s.commit(ctx, s.charter(ctx, app), &app.Status.History[i]), nil
		}
	}
	return s.commit(ctx, s.charter(ctx, app), &v1alpha1.RevisionHistory{Revision: revision, Source: app.Spec.Source}), nil
}

// ListEvents is what was told of an Application, or of one of its objects.
func (s *Service) ListEvents(ctx context.Context, request *connect.Request[runtimev1.ListEventsRequest]) (*connect.Response[runtimev1.ListEventsResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	about := app.Object
	if ref := request.Msg.GetObject(); ref != nil {
		if about, err = s.object(ctx, app, ref); err != nil {
			return nil, err
		}
		if about == nil {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), keyOf(ref)))
		}
	}
	at := Target{Cluster: s.options.Cluster}
	if request.Msg.GetObject() != nil {
		if at, err = s.target(app); err != nil {
			return nil, err
		}
	}
	namespace := cmp.Or(about.GetNamespace(), metav1.NamespaceDefault) // of what has none
	found, err := at.Cluster.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(about.GetUID())).String(), Limit: mostEvents,
	})
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	key := tracking.KeyOf(about)
	secret := key.Group == "" && key.Kind == "Secret"
	answer := &runtimev1.ListEventsResponse{}
	for i := range found.Items {
		told := eventOf(&found.Items[i])
		told.Object = objectRef(key, about.GroupVersionKind().Version, about.GetUID())
		if secret {
			told.Message = "" // others write it, and might quote a value
		}
		answer.Events = append(answer.Events, told)
	}
	slices.SortFunc(answer.Events, func(a, b *runtimev1.ObjectEvent) int {
		return b.GetLastSeenAt().AsTime().Compare(a.GetLastSeenAt().AsTime())
	})
	return connect.NewResponse(answer), nil
}

// eventOf is an Event of either kind: those of series have no count of their own.
func eventOf(event *corev1.Event) *runtimev1.ObjectEvent {
	last, count := event.LastTimestamp.Time, event.Count
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
