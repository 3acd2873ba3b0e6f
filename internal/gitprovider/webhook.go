package gitprovider

import (
	"context"
	"errors"
)

// hook is an existing webhook.
type hook struct {
	id, url string
}

// repositoryHooks are the webhook calls of one repository. Each provider
// implements them; ensureHook and removeHook have the logic.
type repositoryHooks interface {
	list(ctx context.Context) ([]hook, error)
	create(ctx context.Context, want Webhook) error
	update(ctx context.Context, id string, want Webhook) error
	remove(ctx context.Context, id string) error
}

// hooksWithURL returns the hooks with a URL.
func hooksWithURL(ctx context.Context, hooks repositoryHooks, hookURL string) ([]hook, error) {
	// Providers have no lookup by URL, so all hooks are listed.
	all, err := hooks.list(ctx)
	if err != nil {
		return nil, err
	}
	var found []hook
	for _, h := range all {
		if h.url == hookURL {
			found = append(found, h)
		}
	}
	return found, nil
}

// ensureHook leaves exactly one hook with the URL. It always writes:
// providers do not return a hook's secret, so an existing hook may have
// another one.
func ensureHook(ctx context.Context, hooks repositoryHooks, want Webhook) error {
	found, err := hooksWithURL(ctx, hooks, want.URL)
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
		if found, err = hooksWithURL(ctx, hooks, want.URL); err != nil || len(found) == 0 {
			return err
		}
	}
	// The first hook is kept and the others are removed afterwards: a failure
	// in between never leaves the repository without a hook.
	if err := hooks.update(ctx, found[0].id, want); err != nil {
		return err
	}
	return removeHooks(ctx, hooks, found[1:])
}

// removeHook removes every hook with the URL.
func removeHook(ctx context.Context, hooks repositoryHooks, hookURL string) error {
	found, err := hooksWithURL(ctx, hooks, hookURL)
	if err != nil {
		return err
	}
	return removeHooks(ctx, hooks, found)
}

// removeHooks removes hooks; one that is already gone is no error.
func removeHooks(ctx context.Context, hooks repositoryHooks, found []hook) error {
	for _, h := range found {
		err := hooks.remove(ctx, h.id)
		if failure, ok := errors.AsType[*Error](err); ok && failure.Kind == NotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
