package gitprovider

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// hook is an existing webhook, as one of the providers lists it.
type hook struct {
	ID     int64  `json:"id"`
	UUID   string `json:"uuid"` // of Bitbucket Cloud, which has no id
	URL    string `json:"url"`
	Config struct {
		URL string `json:"url"`
	} `json:"config"` // of GitHub, where url is the address of the hook's resource
}

// id returns what identifies the hook in paths.
func (h hook) id() string { return cmp.Or(h.UUID, strconv.FormatInt(h.ID, 10)) }

// target returns the URL that the provider sends events to.
func (h hook) target() string { return cmp.Or(h.Config.URL, h.URL) }

// hookOwner is a provider that gives access to the webhooks of a repository.
type hookOwner interface {
	hooks(repoURL string) (*repositoryHooks, error)
}

// repositoryHooks are the webhook calls of one repository. ensureHook and
// removeHook have the logic.
type repositoryHooks struct {
	*client
	path string                            // of the list; a hook is below it
	body func(want Webhook) map[string]any // the configuration of a hook
}

// withURL returns the hooks with a URL. Providers have no lookup by URL, so
// all hooks are listed.
func (h *repositoryHooks) withURL(ctx context.Context, hookURL string) ([]hook, error) {
	all, err := h.list(ctx)
	var found []hook
	for _, one := range all {
		if one.target() == hookURL {
			found = append(found, one)
		}
	}
	return found, err
}

// list reads all pages of the hooks.
func (h *repositoryHooks) list(ctx context.Context) ([]hook, error) {
	switch h.kind {
	case Bitbucket:
		return nextPages[hook](ctx, h.client, call{method: http.MethodGet, path: h.path, query: url.Values{"pagelen": {"100"}}})
	case BitbucketServer:
		return serverPages[hook](ctx, h.client, call{method: http.MethodGet, path: h.path, query: url.Values{"limit": {"100"}}})
	}
	return linkPages[hook](ctx, h.client, call{method: http.MethodGet, path: h.path, query: url.Values{"per_page": {"100"}}})
}

// create sends POST .../hooks.
func (h *repositoryHooks) create(ctx context.Context, want Webhook) error {
	body := h.body(want)
	if h.kind == GitHub {
		body["name"] = "web"
	}
	_, err := h.do(ctx, call{method: http.MethodPost, path: h.path, body: body})
	return asConflict(err, http.StatusUnprocessableEntity, "already exists", "the webhook")
}

// update sends PUT .../hooks/{id}, to GitHub PATCH.
func (h *repositoryHooks) update(ctx context.Context, one hook, want Webhook) error {
	method := http.MethodPut
	if h.kind == GitHub {
		method = http.MethodPatch
	}
	_, err := h.do(ctx, call{method: method, path: h.path + path(one.id()), body: h.body(want)})
	return err
}

// remove removes hooks; one that is already gone is no error.
func (h *repositoryHooks) remove(ctx context.Context, found []hook) error {
	for _, one := range found {
		_, err := h.do(ctx, call{method: http.MethodDelete, path: h.path + path(one.id())})
		if failure, ok := errors.AsType[*Error](err); ok && failure.Kind == NotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureHook leaves exactly one hook with the URL. It always writes:
// providers do not return a hook's secret, so an existing hook may have
// another one.
func ensureHook(ctx context.Context, owner hookOwner, repoURL string, want Webhook) error {
	hooks, err := owner.hooks(repoURL)
	if err != nil {
		return err
	}
	if err := want.check(hooks.kind); err != nil {
		return err
	}
	found, err := hooks.withURL(ctx, want.URL)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		err := hooks.create(ctx, want)
		// Any result but a conflict is final, including success.
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != Conflict {
			return err
		}
		// Another replica created the hook concurrently.
		if found, err = hooks.withURL(ctx, want.URL); err != nil || len(found) == 0 {
			return err
		}
	}
	// The first hook is kept and the others are removed afterwards: a failure
	// in between never leaves the repository without a hook.
	if err := hooks.update(ctx, found[0], want); err != nil {
		return err
	}
	return hooks.remove(ctx, found[1:])
}

// removeHook removes every hook with the URL.
func removeHook(ctx context.Context, owner hookOwner, repoURL, hookURL string) error {
	hooks, err := owner.hooks(repoURL)
	if err != nil {
		return err
	}
	found, err := hooks.withURL(ctx, hookURL)
	if err != nil {
		return err
	}
	return hooks.remove(ctx, found)
}
