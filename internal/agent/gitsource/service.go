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

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// maxMessage bounds a request.
const maxMessage = 64 << 10

// Options is what a Service works with.
type Options struct {
	Home         *sharedrepo.Home
	Integrations *integration.Service
	// WebhookURL is where the provider tells of pushes to a Git Source; empty while
	// the runtime has no address. Nil: never.
	WebhookURL func(source string) string
	// WebhookSecret is the Secret of the control namespace with the secrets of Git
	// hosts, which the receiver checks.
	WebhookSecret string
	Log           *slog.Logger
}

// Service is the Git Sources of a runtime. It is safe for concurrent use.
type Service struct {
	options Options
}

var _ runtimev1connect.GitSourceServiceHandler = (*Service)(nil)

// New makes a Service and asks nobody.
func New(options Options) *Service { return &Service{options: options} }

// Handlers serve GitSourceService, by path.
func (s *Service) Handlers(more ...connect.HandlerOption) map[string]http.Handler {
	path, handler := runtimev1connect.NewGitSourceServiceHandler(s, append([]connect.HandlerOption{connect.WithReadMaxBytes(maxMessage)}, more...)...)
	return map[string]http.Handler{path: handler}
}

func signedIn(ctx context.Context) error {
	if claims, ok := token.ClaimsFrom(ctx); !ok || claims.UserID == "" {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("this is for a user of the platform: ask through the platform"))
	}
	return nil
}

// admin is for what changes what is deployed. The router has checked it too.
func admin(ctx context.Context) error {
	if err := signedIn(ctx); err != nil {
		return err
	}
	if claims, _ := token.ClaimsFrom(ctx); claims.Role != permission.RoleAdmin {
		return connect.NewError(connect.CodePermissionDenied, errors.New("this is for admins of the account"))
	}
	return nil
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// answerError is an error with the code that tells a client what to do.
func answerError(err error) error {
	var already *connect.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	var notReady *sharedrepo.NotReadyError
	var rejected *remote.RejectedError
	var path *sharedrepo.PathError
	var failure *remote.Failure
	var provider *gitprovider.Error
	code := connect.CodeInternal
	switch {
	case errors.As(err, &notReady), errors.As(err, &rejected), errors.As(err, &path):
		code = connect.CodeFailedPrecondition
	case errors.As(err, &failure):
		code = connect.CodeFailedPrecondition
		if failure.Reason == remote.Unreachable {
			code = connect.CodeUnavailable
		}
	case errors.As(err, &provider):
		code = connect.CodeFailedPrecondition
		if provider.Retryable() {
			code = connect.CodeUnavailable
		}
	case apierrors.IsForbidden(err):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	}
	return connect.NewError(code, err)
}

// CreateGitSource implements GitSourceService.
func (s *Service) CreateGitSource(ctx context.Context, request *connect.Request[runtimev1.CreateGitSourceRequest]) (*connect.Response[runtimev1.CreateGitSourceResponse], error) {
	if err := admin(ctx); err != nil {
		return nil, err
	}
	given := request.Msg.GetGitSource()
	if err := s.checkNew(ctx, given); err != nil {
		return nil, answerError(err)
	}
	if err := s.checkReadable(ctx, given.GetRepoUrl(), request.Msg.GetCreateRepository()); err != nil {
		return nil, answerError(err)
	}
	webhook, problem := "", error(nil)
	if request.Msg.GetRegisterWebhook() {
		webhook, problem = s.registerWebhook(ctx, given)
	}
	commit, err := s.write(ctx, given, webhook)
	if err != nil {
		return nil, answerError(err)
	}
	answer := &runtimev1.CreateGitSourceResponse{GitSource: s.complete(given), Commit: commit}
	if problem != nil {
		answer.WebhookProblem = problem.Error()
	}
	return connect.NewResponse(answer), nil
}

// checkNew checks a Git Source that does not exist yet.
func (s *Service) checkNew(ctx context.Context, given *runtimev1.GitSource) error {
	if err := s.check(given); err != nil {
		return err
	}
	// Without it nothing can be committed, which is the first thing to know.
	if _, err := s.options.Home.Repository(ctx); err != nil {
		return err
	}
	if err := s.checkSSH(ctx, given.GetRepoUrl()); err != nil {
		return err
	}
	_, err := s.options.Home.Applications().Get(ctx, given.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		return taken(given.GetName())
	case apierrors.IsNotFound(err):
		return nil
	}
	return fmt.Errorf("look for an Application named %s: %w", given.GetName(), err)
}

func taken(name string) error {
	return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("there is a Git Source or an Application named %s in this runtime: choose another name", name))
}

// write commits a new Git Source, with the webhook that it has.
func (s *Service) write(ctx context.Context, given *runtimev1.GitSource, webhook string) (string, error) {
	repository, err := s.options.Home.Repository(ctx)
	if err != nil {
		return "", err
	}
	manifest := s.manifest(given)
	if webhook != "" {
		manifest.Annotations = map[string]string{webhookAnnotation: webhook}
	}
	text, err := manifest.YAML()
	if err != nil {
		return "", err
	}
	name := sharedrepo.GitSourceFile(s.options.Home.Runtime(), given.GetName())
	commit, err := repository.Change(ctx, "git source "+given.GetName()+": create", s.options.Home.Asker(ctx), func(files sharedrepo.Files) error {
		if _, found, err := files.Read(name); err != nil || found {
			if found {
				err = taken(given.GetName())
			}
			return err
		}
		return files.Write(name, text)
	})
	if err != nil {
		return "", err
	}
	s.options.Home.Refresh(ctx)
	return commit, nil
}

// EditGitSource implements GitSourceService. The name says which one.
func (s *Service) EditGitSource(ctx context.Context, request *connect.Request[runtimev1.EditGitSourceRequest]) (*connect.Response[runtimev1.EditGitSourceResponse], error) {
	if err := admin(ctx); err != nil {
		return nil, err
	}
	given := request.Msg.GetGitSource()
	if err := s.check(given); err != nil {
		return nil, answerError(err)
	}
	if err := s.checkSSH(ctx, given.GetRepoUrl()); err != nil {
		return nil, answerError(err)
	}
	if err := s.checkReadable(ctx, given.GetRepoUrl(), false); err != nil {
		return nil, answerError(err)
	}
	repository, err := s.options.Home.Repository(ctx)
	if err != nil {
		return nil, answerError(err)
	}
	name := sharedrepo.GitSourceFile(s.options.Home.Runtime(), given.GetName())
	commit, err := repository.Change(ctx, "git source "+given.GetName()+": edit", s.options.Home.Asker(ctx), func(files sharedrepo.Files) error {
		if err := exists(files, name, given.GetName()); err != nil {
			return err
		}
		return files.EditManifest(name, func(object map[string]any) error { return s.edit(object, given) })
	})
	if err != nil {
		return nil, answerError(err)
	}
	s.options.Home.Refresh(ctx)
	return connect.NewResponse(&runtimev1.EditGitSourceResponse{GitSource: s.complete(given), Commit: commit}), nil
}

func exists(files sharedrepo.Files, file, name string) error {
	_, found, err := files.Read(file)
	if err == nil && !found {
		err = connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Git Source %s in this runtime; a name cannot be changed: make a new one instead", name))
	}
	return err
}

// DeleteGitSource implements GitSourceService. The engine deletes the Application
// of the Git Source, which has no finalizer, so that what it made stays.
func (s *Service) DeleteGitSource(ctx context.Context, request *connect.Request[runtimev1.DeleteGitSourceRequest]) (*connect.Response[runtimev1.DeleteGitSourceResponse], error) {
	if err := admin(ctx); err != nil {
		return nil, err
	}
	name := request.Msg.GetName()
	if err := checkName(name); err != nil || slices.Contains(sharedrepo.ReservedNames(s.options.Home.Runtime()), name) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such Git Source in this runtime"))
	}
	repository, err := s.options.Home.Repository(ctx)
	if err != nil {
		return nil, answerError(err)
	}
	file := sharedrepo.GitSourceFile(s.options.Home.Runtime(), name)
	repoURL, webhook := "", ""
	commit, err := repository.Change(ctx, "git source "+name+": delete", s.options.Home.Asker(ctx), func(files sharedrepo.Files) error {
		if err := exists(files, file, name); err != nil {
			return err
		}
		if text, _, err := files.Read(file); err == nil {
			if one, ok := parse(text); ok {
				repoURL, webhook = one.GetRepoUrl(), webhookIn(text)
			}
		}
		return files.Remove(file)
	})
	if err != nil {
		return nil, answerError(err)
	}
	s.options.Home.Refresh(ctx)
	s.removeWebhook(ctx, name, repoURL, cmp.Or(webhook, s.webhookURL(name)))
	return connect.NewResponse(&runtimev1.DeleteGitSourceResponse{Commit: commit}), nil
}
