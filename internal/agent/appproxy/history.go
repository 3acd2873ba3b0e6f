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
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// commitTimeout bounds how long commits are looked up: a history without
	// their messages is useful too.
	commitTimeout = 5 * time.Second
	// maxEvents bounds one list of Events.
	maxEvents = 500
)

// GetHistory returns the past syncs of an Application, with author and message
// of each commit where they can be read.
func (s *Service) GetHistory(ctx context.Context, request *connect.Request[runtimev1.GetHistoryRequest]) (*connect.Response[runtimev1.GetHistoryResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	// All commits share one timeout, so that a slow repository does not block
	// the history.
	looking, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	// The history is in the status, which other clients can write. A commit is
	// therefore read only from repositories that the project allows.
	compiled := s.compiledProject(looking, app)
	response := &runtimev1.GetHistoryResponse{}
	for i := range app.Status.History {
		entry := &app.Status.History[i]
		message := &runtimev1.HistoryEntry{
			Id: entry.ID, Revision: cmp.Or(entry.Revision, strings.Join(entry.Revisions, ",")),
			InitiatedBy: entry.InitiatedBy.Username, Automated: entry.InitiatedBy.Automated, DeployedAt: wire.Timestamp(entry.DeployedAt.Time),
		}
		if commit := s.commit(looking, compiled, entry); commit != nil {
			message.CommitAuthor, message.CommitMessage, message.CommitAt = commit.Author, commit.Message, timestamppb.New(commit.When)
		}
		response.Entries = append(response.Entries, message)
	}
	return connect.NewResponse(response), nil
}

// compiledProject returns the project of an Application; nil if it does not
// allow the Application.
func (s *Service) compiledProject(ctx context.Context, app *inspect.Application) *project.Project {
	at, err := s.target(app)
	if err != nil {
		return nil
	}
	compiled, err := s.strict.CompiledProject(ctx, app, at.destination(app), at.Scope)
	if err != nil {
		return nil
	}
	return compiled
}

// commit looks up the commit of a past sync of a single Git repository; nil if
// it cannot be read.
func (s *Service) commit(ctx context.Context, compiled *project.Project, entry *v1alpha1.RevisionHistory) *source.Commit {
	if compiled == nil || s.options.Sources == nil || entry.Source == nil || entry.Source.Chart != "" || entry.Revision == "" {
		return nil
	}
	// The status is not trusted: any repository could be named there.
	admitted, err := compiled.Admit(v1alpha1.ApplicationSource{RepoURL: entry.Source.RepoURL, TargetRevision: entry.Revision})
	if err != nil || ctx.Err() != nil {
		return nil
	}
	commit, err := s.options.Sources.Commit(ctx, admitted)
	if err != nil {
		return nil
	}
	return commit
}

// Commit looks up a revision that an Application was synced to; nil if the
// project does not allow its repository.
func (s *Service) Commit(ctx context.Context, place tracking.App, revision string) (*source.Commit, error) {
	if !s.servesNamespace(place.Namespace) {
		return nil, notFound(place)
	}
	app, err := s.inspector.Get(ctx, place)
	if err != nil {
		return nil, err
	}
	// The newest sync of a revision has the source that was used.
	for i := len(app.Status.History) - 1; i >= 0; i-- {
		if app.Status.History[i].Revision == revision {
			return s.commit(ctx, s.compiledProject(ctx, app), &app.Status.History[i]), nil
		}
	}
	return s.commit(ctx, s.compiledProject(ctx, app), &v1alpha1.RevisionHistory{Revision: revision, Source: app.Spec.Source}), nil
}
