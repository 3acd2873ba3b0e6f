package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// maxMessage bounds a request. A Git Source is a few short fields; larger
// requests are refused before they are decoded.
const maxMessage = 64 << 10

// Options configures a Service.
type Options struct {
	SharedRepository *sharedrepo.Controller
	Integrations     *integration.Service
	// Rights decides what users may do.
	Rights Rights
	// WebhookURL returns the address that a provider sends pushes of a Git
	// Source to; empty while the runtime has none. It may be nil.
	WebhookURL func(source string) string
	// WebhookSecret is the Secret of the control namespace with the keys that
	// Git hosts sign with.
	WebhookSecret string
	Log           *slog.Logger
}

// Rights decides what users may do with Git Sources. Its errors have a code.
type Rights interface {
	// GitSourceRights returns a function that fails unless the user of the
	// request has a verb on the Application of a Git Source.
	GitSourceRights(ctx context.Context) (func(verb permission.Verb, app *argo.Application) error, error)
	// MayCreateGitSources reports whether the user of the request could have the
	// right to create a Git Source in some project.
	MayCreateGitSources(ctx context.Context) (bool, error)
	// CheckProject fails unless the project of an Application allows its source
	// and its destination.
	CheckProject(ctx context.Context, app *argo.Application) error
}

// Service manages the Git Sources of a runtime. It is safe for concurrent use.
type Service struct {
	options Options
}

var _ runtimev1connect.GitSourceServiceHandler = (*Service)(nil)

// New returns a Service. It sends no request before it receives one.
func New(options Options) *Service { return &Service{options: options} }

// Handlers returns the handlers of GitSourceService by path.
func (s *Service) Handlers(more ...connect.HandlerOption) map[string]http.Handler {
	path, handler := runtimev1connect.NewGitSourceServiceHandler(s, append([]connect.HandlerOption{connect.WithReadMaxBytes(maxMessage)}, more...)...)
	return map[string]http.Handler{path: handler}
}

// invalid is the error for a field that the user can correct.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// toConnectError maps an error to the code that decides whether a client
// retries.
func toConnectError(err error) error {
	err = sharedrepo.ToConnectError(err)
	var already *connect.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	// Errors of types that are not listed are internal: their text is not
	// written for users.
	code := connect.CodeInternal
	switch {
	case apierrors.IsForbidden(err):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	}
	return connect.NewError(code, err)
}

// CreateGitSource implements GitSourceService. A webhook that cannot be
// registered is a warning in the response: the repository is polled without it.
func (s *Service) CreateGitSource(ctx context.Context, request *connect.Request[runtimev1.CreateGitSourceRequest]) (*connect.Response[runtimev1.CreateGitSourceResponse], error) {
	given := request.Msg.GetGitSource()
	// First, so that other users learn nothing about names and repositories.
	if err := s.authorise(ctx, permission.Create, given); err != nil {
		return nil, err
	}
	if request.Msg.GetCreateRepository() && !isAdmin(ctx) {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("the runtime makes repositories with its own token, which is for users with the role admin: make the repository first"))
	}
	if err := s.checkNew(ctx, given); err != nil {
		return nil, toConnectError(err)
	}
	if err := s.checkReadable(ctx, given, request.Msg.GetCreateRepository()); err != nil {
		return nil, toConnectError(err)
	}
	// The webhook is registered before the commit, because its address is part
	// of the file.
	webhook, problem := "", error(nil)
	if request.Msg.GetRegisterWebhook() {
		webhook, problem = s.registerWebhook(ctx, given)
	}
	// If the commit fails, a webhook may be left over. It does no harm, and the
	// next attempt finds it.
	commit, err := s.write(ctx, given, webhook)
	if err != nil {
		return nil, toConnectError(err)
	}
	response := &runtimev1.CreateGitSourceResponse{GitSource: s.withDefaults(given), Commit: commit}
	if problem != nil {
		response.WebhookProblem = problem.Error()
	}
	return connect.NewResponse(response), nil
}

// checkNew checks that a Git Source does not exist yet and can be committed.
func (s *Service) checkNew(ctx context.Context, given *runtimev1.GitSource) error {
	// Without the Shared Configuration Repository nothing can be committed, so
	// this is checked before the repository of the source.
	if _, err := s.options.SharedRepository.Repository(ctx); err != nil {
		return err
	}
	if err := s.checkSSH(ctx, given); err != nil {
		return err
	}
	// An Application of any origin takes the name, as both would be one object.
	_, err := s.options.SharedRepository.Applications().Get(ctx, given.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		return nameTakenError(given.GetName())
	case apierrors.IsNotFound(err):
		return nil
	}
	return fmt.Errorf("look for an Application named %s: %w", given.GetName(), err)
}

// nameTakenError is the error for a name that exists in the runtime.
func nameTakenError(name string) error {
	return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("there is a Git Source or an Application named %s in this runtime: choose another name", name))
}

// write commits a new Git Source with the address of its webhook. The name is
// checked again in the commit: another user may have taken it meanwhile.
func (s *Service) write(ctx context.Context, given *runtimev1.GitSource, webhook string) (string, error) {
	manifest := s.manifest(given)
	if webhook != "" {
		manifest.Annotations = map[string]string{webhookAnnotation: webhook}
	}
	text, err := manifest.YAML()
	if err != nil {
		return "", err
	}
	return s.change(ctx, given.GetName(), "create", func(files sharedrepo.Files, file string) error {
		if _, found, err := files.Read(file); err != nil || found {
			if found {
				err = nameTakenError(given.GetName())
			}
			return err
		}
		return files.Write(file, text)
	})
}

// change commits a change of the file of a Git Source for the user of the
// request, and has it synced.
func (s *Service) change(ctx context.Context, name, verb string, edit func(files sharedrepo.Files, file string) error) (string, error) {
	return s.options.SharedRepository.Change(ctx, "git source "+name+": "+verb, func(files sharedrepo.Files) error {
		return edit(files, sharedrepo.GitSourceFile(s.options.SharedRepository.Runtime(), name))
	})
}

// EditGitSource implements GitSourceService. The name selects the Git Source
// and cannot be changed.
func (s *Service) EditGitSource(ctx context.Context, request *connect.Request[runtimev1.EditGitSourceRequest]) (*connect.Response[runtimev1.EditGitSourceResponse], error) {
	given := request.Msg.GetGitSource()
	if err := s.authorise(ctx, permission.Update, given); err != nil {
		return nil, err
	}
	if err := s.checkSSH(ctx, given); err != nil {
		return nil, toConnectError(err)
	}
	if err := s.checkReadable(ctx, given, false); err != nil {
		return nil, toConnectError(err)
	}
	commit, err := s.change(ctx, given.GetName(), "edit", func(files sharedrepo.Files, file string) error {
		// The right is needed in the project that has it, too.
		if _, err := s.committedSource(ctx, files, given.GetName(), permission.Update); err != nil {
			return err
		}
		return sharedrepo.EditManifest(files, file, func(object map[string]any) error { return s.edit(object, given) })
	})
	if err != nil {
		return nil, toConnectError(err)
	}
	return connect.NewResponse(&runtimev1.EditGitSourceResponse{GitSource: s.withDefaults(given), Commit: commit}), nil
}

// DeleteGitSource implements GitSourceService. The agent then prunes the
// Application of the Git Source, which has no finalizer, so that the
// Applications it created stay.
func (s *Service) DeleteGitSource(ctx context.Context, request *connect.Request[runtimev1.DeleteGitSourceRequest]) (*connect.Response[runtimev1.DeleteGitSourceResponse], error) {
	if err := requireUser(ctx); err != nil {
		return nil, err
	}
	name := request.Msg.GetName()
	if err := checkName(name); err != nil || slices.Contains(sharedrepo.ReservedNames(s.options.SharedRepository.Runtime()), name) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such Git Source in this runtime"))
	}
	repoURL, webhook := "", ""
	commit, err := s.change(ctx, name, "delete", func(files sharedrepo.Files, file string) error {
		text, err := s.committedSource(ctx, files, name, permission.Delete)
		if err != nil {
			return err
		}
		// The webhook is read from the file that is removed, as the address may
		// be one of an earlier access mode.
		if one, ok := parse(text); ok {
			repoURL, webhook = one.GetRepoUrl(), webhookIn(text)
		}
		return files.Remove(file)
	})
	if err != nil {
		return nil, toConnectError(err)
	}
	s.removeWebhook(ctx, name, repoURL, cmp.Or(webhook, s.webhookURL(name)))
	return connect.NewResponse(&runtimev1.DeleteGitSourceResponse{Commit: commit}), nil
}
