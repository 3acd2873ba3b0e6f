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
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// How long Run waits before it tries again.
const (
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
	// waitForSettings is how often it looks whether settings and credentials are
	// there: another replica may have stored them.
	waitForSettings = 10 * time.Second
	// recheck is how often a repository that is in order is looked at: somebody
	// may have removed the runtime's files, or its Application.
	recheck = 30 * time.Minute
)

// fieldManager owns the Application that Home applies.
const fieldManager = "slipway-shared"

// HomeOptions is what a Home works with.
type HomeOptions struct {
	Cluster *kube.Cluster
	// Runtime is its name, Namespace where its Applications are.
	Runtime, Namespace string
	// Settings is what the account says of Git; nil before the runtime joined.
	Settings func() *platformv1.GitSettings
	// Access is the runtime's credential for a repository.
	Access func(ctx context.Context, repoURL string) (remote.Access, error)
	// Create makes a repository at the provider. Nil: it has to exist.
	Create func(ctx context.Context, repoURL string) error
	// Chart is what the runtime is installed from; nil where that is not known.
	Chart func(ctx context.Context) (Chart, error)
	// Folder is for what is fetched.
	Folder string
	Log    *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// NotReadyError is that something has to be set first.
type NotReadyError struct{ text string }

// Error says what to set.
func (e *NotReadyError) Error() string { return e.text }

// NotReady makes a NotReadyError.
func NotReady(format string, args ...any) *NotReadyError {
	return &NotReadyError{text: fmt.Sprintf(format, args...)}
}

// Home is the Shared Configuration Repository of this runtime. It is safe for
// concurrent use.
type Home struct {
	options HomeOptions
	reached atomic.Pointer[Location] // nil: none
	changed chan struct{}

	mu   sync.Mutex
	open *Repository
	// key is what it was opened with.
	key [sha256.Size]byte

	// keeping is held while the files of the runtime are written or taken away. Once it
	// has left they are not written again.
	keeping sync.Mutex
	left    bool
}

// NewHome makes a Home and connects to nothing.
func NewHome(options HomeOptions) *Home {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Home{options: options, changed: make(chan struct{}, 1)}
}

// Valid reports whether the repository was reached and seeded with the settings
// and credentials of now.
func (h *Home) Valid() bool { return h.reached.Load() != nil }

// Reached is the repository that is Valid, as the settings had it when it was
// reached; empty is none.
func (h *Home) Reached() string {
	if location := h.reached.Load(); location != nil {
		return location.String()
	}
	return ""
}

// Changed tells Run that settings or credentials are new.
func (h *Home) Changed() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Repository opens the repository with the credentials of now. Without settings
// or credentials it is a *[NotReadyError].
func (h *Home) Repository(ctx context.Context) (*Repository, error) {
	settings := h.options.Settings()
	if settings.GetSharedRepository() == "" {
		return nil, NotReady("the account has no Shared Configuration Repository: set one with the Git settings of the account")
	}
	location, err := Parse(settings.GetSharedRepository())
	if err != nil {
		return nil, err
	}
	// They are asked for each time: another replica may have stored new ones.
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
	opened, err := Open(Options{Location: location, Access: access, Committer: h.Committer(), Folder: h.options.Folder, Now: h.options.Now})
	if err != nil {
		return nil, err
	}
	h.open, h.key = opened, key
	return opened, nil
}

// accessKey is the same for the same repository and credentials.
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

// Committer is the runtime as it commits.
func (h *Home) Committer() Author {
	return Author{Name: "Slipway runtime " + h.options.Runtime, Email: h.options.Runtime + "@runtime.slipway.invalid"}
}

// Ensure makes the repository if it does not exist, seeds it, and applies the
// Application that follows it. It can be called again at any time.
func (h *Home) Ensure(ctx context.Context) error {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	if h.left {
		h.reached.Store(nil)
		return NotReady("the runtime is being uninstalled")
	}
	repository, err := h.Repository(ctx)
	if err == nil {
		err = h.ensure(ctx, repository)
	}
	if err != nil {
		h.reached.Store(nil)
		return err
	}
	location := repository.Location()
	h.reached.Store(&location)
	return nil
}

func (h *Home) ensure(ctx context.Context, repository *Repository) error {
	_, err := repository.Seed(ctx, h.options.Runtime, h.options.Namespace)
	var failure *remote.Failure
	if errors.As(err, &failure) && failure.Reason == remote.Missing && h.options.Create != nil {
		if createErr := h.options.Create(ctx, repository.Location().RepoURL); createErr != nil {
			return errors.Join(err, fmt.Errorf("make the Shared Configuration Repository: %w", createErr))
		}
		_, err = repository.Seed(ctx, h.options.Runtime, h.options.Namespace)
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
	return nil
}

// Run ensures the repository now, whenever [Home.Changed] is called, and from
// time to time, until the context is done.
func (h *Home) Run(ctx context.Context) error {
	retry := backoff.Retries{Policy: backoff.Policy{First: firstRetry, Longest: lastRetry}}
	told := ""
	for {
		err := h.Ensure(ctx)
		wait := recheck
		var notReady *NotReadyError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			retry.Reset()
			told = ""
		case errors.As(err, &notReady):
			wait = waitForSettings
		default:
			wait = retry.Next()
			if err.Error() != told {
				told = err.Error()
				h.options.Log.Warn("the Shared Configuration Repository is not in order", observe.KeyError, err)
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

// Leave ends following the repository, which leaves everything in the cluster,
// and takes the runtime's files away if clean (R113).
func (h *Home) Leave(ctx context.Context, author Author, clean bool) error {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	h.left = true
	for _, name := range []string{ParentName(h.options.Runtime), InClusterName(h.options.Runtime)} {
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

// Runtime is the name of the runtime.
func (h *Home) Runtime() string { return h.options.Runtime }

// Namespace is where the Applications of the runtime are.
func (h *Home) Namespace() string { return h.options.Namespace }

// Applications is where the Applications of the runtime are, for the API server.
func (h *Home) Applications() dynamic.ResourceInterface {
	return h.options.Cluster.Dynamic.Resource(argo.ApplicationResource()).Namespace(h.options.Namespace)
}

// Refresh asks the engine to look at the repository now instead of at its next
// turn. That it cannot be asked is no reason to fail: it looks anyway.
func (h *Home) Refresh(ctx context.Context) {
	const patch = `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`
	for _, name := range []string{ParentName(h.options.Runtime), InClusterName(h.options.Runtime)} {
		_, err := h.Applications().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			h.options.Log.Warn("the Application of the Shared Configuration Repository cannot be refreshed", "application", name, observe.KeyError, err)
		}
	}
}
