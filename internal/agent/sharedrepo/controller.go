package sharedrepo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Intervals of Run.
const (
	firstBackoff = 5 * time.Second
	maxBackoff   = time.Minute
	// settingsInterval is how often settings and credentials are read while
	// they are missing: another replica may have stored them.
	settingsInterval = 10 * time.Second
	// recheckInterval is how often a repository in order is checked: a user may
	// have removed the runtime's files or its Application.
	recheckInterval = 30 * time.Minute
)

// fieldManager is the field manager of the applied Application.
const fieldManager = "slipway-shared"

// ControllerOptions configures a Controller.
type ControllerOptions struct {
	Cluster *kube.Cluster
	// Runtime is its name, and Namespace has its Applications.
	Runtime, Namespace string
	// Settings returns the Git settings of the account; nil before the runtime
	// joined.
	Settings func() *platformv1.GitSettings
	// Access returns the runtime's credential for a repository.
	Access func(ctx context.Context, repoURL string) (remote.Access, error)
	// UserAccess returns the own access of the user of a request to a repository;
	// nil if that user writes with the runtime's. It may be nil, and all do then.
	UserAccess func(ctx context.Context, repoURL string) (*UserAccess, error)
	// Create creates a repository at the provider. If it is nil the repository
	// must exist.
	Create func(ctx context.Context, repoURL string) error
	// Clusters returns the addresses of the managed clusters by name; false
	// before they are known. It may be nil for a runtime without any.
	Clusters func() (map[string]string, bool)
	// Chart returns the chart that the runtime is installed from; nil where
	// that is unknown.
	Chart func(ctx context.Context) (Chart, error)
	// Folder has the fetched objects.
	Folder string
	Log    *slog.Logger
}

// NotReadyError is a setting that is missing.
type NotReadyError struct{ text string }

// Error explains what to set.
func (e *NotReadyError) Error() string { return e.text }

// NotReady returns a NotReadyError.
func NotReady(format string, args ...any) *NotReadyError {
	return &NotReadyError{text: fmt.Sprintf(format, args...)}
}

// Controller keeps the Shared Configuration Repository of this runtime in
// order. It is safe for concurrent use.
type Controller struct {
	options ControllerOptions
	ready   atomic.Pointer[Location] // nil: none
	problem atomic.Pointer[error]    // nil: none
	// changed holds one signal at most.
	changed chan struct{}

	// mu guards the opened repository.
	mu   sync.Mutex
	open *Repository
	// key identifies the location and credentials that it was opened with.
	key [sha256.Size]byte

	// writing is held while the runtime's files are written or removed. After
	// Leave they are not written again.
	writing sync.Mutex
	left    bool
}

// NewController returns a Controller. It connects to nothing before it is used.
func NewController(options ControllerOptions) *Controller {
	return &Controller{options: options, changed: make(chan struct{}, 1)}
}

// Valid reports whether the repository was reached and seeded with the current
// settings and credentials.
func (h *Controller) Valid() bool { return h.ready.Load() != nil }

// ReadyRepository returns the address of the repository that is Valid; empty if
// none is.
func (h *Controller) ReadyRepository() string {
	if location := h.ready.Load(); location != nil {
		return location.String()
	}
	return ""
}

// Problem returns why the last Ensure failed; nil if it succeeded, or if
// settings or credentials are missing, which the steps after an installation
// show.
func (h *Controller) Problem() error {
	if problem := h.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// Changed makes Run check the repository: settings or credentials changed.
func (h *Controller) Changed() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Repository opens the repository with the current credentials. Without
// settings or credentials the error is a *[NotReadyError]. Credentials are read
// each time, because another replica may have stored new ones.
func (h *Controller) Repository(ctx context.Context) (*Repository, error) {
	settings := h.options.Settings()
	if settings.GetSharedRepository() == "" {
		return nil, NotReady("the account has no Shared Configuration Repository: set one with the Git settings of the account")
	}
	location, err := Parse(settings.GetSharedRepository())
	if err != nil {
		return nil, err
	}
	// They are read each time: another replica may have stored new ones.
	access, err := h.options.Access(ctx, location.RepoURL)
	if err != nil {
		return nil, err
	}
	key := accessKey(location, access)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != nil && h.key == key {
		return h.open, nil
	}
	opened, err := Open(Options{Location: location, Access: access, Committer: h.Committer(), Folder: h.options.Folder})
	if err != nil {
		return nil, err
	}
	h.open, h.key = opened, key
	return opened, nil
}

// accessKey is equal for the same repository and credentials.
func accessKey(location Location, access remote.Access) [sha256.Size]byte {
	c := access.Credential
	hash := sha256.New()
	for _, part := range []string{
		location.String(), c.Username, c.Password.Reveal(), c.BearerToken.Reveal(), c.SSHPrivateKey.Reveal(), c.ClientCertificate,
		c.ClientKey.Reveal(), c.Proxy.Reveal(), c.NoProxy, fmt.Sprint(c.Insecure, c.InsecureIgnoreHostKey, c.ForceHTTPBasicAuth),
		string(access.KnownHosts), string(access.Authorities),
	} {
		fmt.Fprintf(hash, "%d:%s,", len(part), part)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// Committer returns the runtime as a committer.
func (h *Controller) Committer() Author {
	return Author{Name: "Slipway runtime " + h.options.Runtime, Email: h.options.Runtime + "@runtime.slipway.invalid"}
}

// Change commits a change for the user of the request, or for the runtime if
// there is none, and has it synced. See [Repository.Change].
func (h *Controller) Change(ctx context.Context, message string, change func(files Files) error) (string, error) {
	repository, err := h.Repository(ctx)
	if err != nil {
		return "", err
	}
	writer, err := h.writer(ctx, repository.Location().RepoURL)
	if err != nil {
		return "", err
	}
	commit, err := repository.Change(ctx, message, writer, change)
	if refused, ok := errors.AsType[gitwrite.RefusedUserError](err); ok {
		return "", fmt.Errorf("%w. The push was made with your own Git token: let it write to this repository, register another with slipway integration git register --runtime %s --token-file FILE, or remove it with slipway integration git deregister --runtime %s, and the runtime pushes with its own",
			refused, h.options.Runtime, h.options.Runtime)
	}
	if err != nil {
		return "", err
	}
	// Without it the change would wait for the next poll of the repository.
	h.refresh(ctx)
	return commit, nil
}

// writer returns for whom the changes of a request are committed.
func (h *Controller) writer(ctx context.Context, repoURL string) (Writer, error) {
	claims, ok := token.ClaimsFrom(ctx)
	if !ok || claims.UserID == "" {
		return Writer{Author: h.Committer()}, nil
	}
	writer := Writer{Author: Author{Name: claims.Name, Email: claims.Email}}
	if h.options.UserAccess == nil {
		return writer, nil
	}
	var err error
	writer.Own, err = h.options.UserAccess(ctx, repoURL)
	return writer, err
}

// Ensure creates the repository if it does not exist, seeds it, and applies the
// Application that syncs it. It is idempotent.
func (h *Controller) Ensure(ctx context.Context) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.left {
		h.ready.Store(nil)
		return NotReady("the runtime is being uninstalled")
	}
	repository, err := h.Repository(ctx)
	if err == nil {
		err = h.ensure(ctx, repository)
	}
	if err != nil {
		h.ready.Store(nil)
		if _, notReady := errors.AsType[*NotReadyError](err); !notReady {
			problem := explained(err)
			h.problem.Store(&problem)
		}
		return err
	}
	h.problem.Store(nil)
	location := repository.Location()
	h.ready.Store(&location)
	return nil
}

// ensure seeds an opened repository. The lock writing must be held.
func (h *Controller) ensure(ctx context.Context, repository *Repository) error {
	seeded, err := repository.Seed(ctx, h.options.Runtime, h.options.Namespace)
	if failure, ok := errors.AsType[*remote.Failure](err); ok && failure.Reason == remote.Missing && h.options.Create != nil {
		if createErr := h.options.Create(ctx, repository.Location().RepoURL); createErr != nil {
			return fmt.Errorf("%w; it cannot be created: %w", err, createErr)
		}
		seeded, err = repository.Seed(ctx, h.options.Runtime, h.options.Namespace)
	}
	if err != nil {
		return err
	}
	text, err := Parent(repository.Location(), h.options.Runtime, h.options.Namespace).YAML()
	if err != nil {
		return err
	}
	if _, err := h.options.Cluster.Apply(ctx, kube.Target{Namespace: h.options.Namespace, Manager: fieldManager}, string(text)); err != nil {
		return fmt.Errorf("apply the Application of the Shared Configuration Repository: %w", err)
	}
	return h.writeClusters(ctx, repository, seeded)
}

// writeClusters writes the files of the managed clusters, and has them synced
// if there is a commit after the newest one.
func (h *Controller) writeClusters(ctx context.Context, repository *Repository, newest string) error {
	if h.options.Clusters == nil {
		return nil
	}
	// Without this check a replica that has not read its clusters yet would
	// remove all of them.
	clusters, known := h.options.Clusters()
	if !known {
		return nil
	}
	commit, err := repository.WriteClusters(ctx, h.options.Runtime, clusters)
	if err == nil && commit != newest {
		h.refresh(ctx)
	}
	return err
}

// Run calls Ensure at the start, after [Controller.Changed], and at an
// interval, until the context is done.
func (h *Controller) Run(ctx context.Context) error {
	retry := backoff.Retries{Policy: backoff.Policy{First: firstBackoff, Longest: maxBackoff}}
	text := ""
	for {
		err := h.Ensure(ctx)
		wait := recheckInterval
		var notReady *NotReadyError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			retry.Reset()
			text = ""
		case errors.As(err, &notReady):
			wait = settingsInterval
		default:
			wait = retry.Next()
			if err.Error() != text {
				text = err.Error()
				h.options.Log.Warn("cannot reconcile Shared Configuration Repository; retrying", observe.KeyError, err)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-h.changed:
			timer.Stop()
			retry.Reset()
		case <-timer.C:
		}
	}
}

// Leave deletes the Applications of the repository, without their objects, and
// removes the runtime's files if clean is set (R113).
func (h *Controller) Leave(ctx context.Context, author Author, clean bool) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.left = true
	// The parent comes first: it would create the others again.
	names := []string{ParentName(h.options.Runtime), InClusterName(h.options.Runtime)}
	selector := EntityLabel + "=" + EntityConfig + "," + RuntimeLabel + "=" + h.options.Runtime
	found, err := h.Applications().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list the Applications of the Shared Configuration Repository: %w", err)
	}
	for i := range found.Items {
		names = append(names, found.Items[i].GetName())
	}
	for _, name := range names {
		err := h.Applications().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the Application %s: %w", name, err)
		}
	}
	if !clean {
		return nil
	}
	repository, err := h.Repository(ctx)
	if err != nil {
		return err
	}
	_, err = repository.RemoveRuntime(ctx, author, h.options.Runtime)
	return err
}

// Runtime returns the name of the runtime.
func (h *Controller) Runtime() string { return h.options.Runtime }

// Namespace returns the namespace of the runtime's Applications.
func (h *Controller) Namespace() string { return h.options.Namespace }

// Applications is the client for the runtime's Applications.
func (h *Controller) Applications() dynamic.ResourceInterface {
	return h.options.Cluster.Dynamic.Resource(argo.ApplicationResource()).Namespace(h.options.Namespace)
}

// refresh requests a sync of the repository now. A failure is only logged, as
// the agent polls the repository anyway.
func (h *Controller) refresh(ctx context.Context) {
	const patch = `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`
	for _, name := range []string{ParentName(h.options.Runtime), InClusterName(h.options.Runtime)} {
		_, err := h.Applications().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			h.options.Log.Warn("cannot refresh Application of the Shared Configuration Repository", "application", name, observe.KeyError, err)
		}
	}
}
