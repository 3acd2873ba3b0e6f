package appproxy

import (
	"cmp"
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

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
