package providertest

import (
	"net/http"
	"slices"
	"strconv"

	"slipway.dev/slipway/internal/gitprovider"
)

// webhooks are what the webhook calls of the providers differ in.
type webhooks struct {
	// open returns the repository if the token may read, write or delete its
	// hooks. Otherwise it responds with the error and returns nil.
	open    func(x *exchange, action string) *Repository
	read    func(x *exchange) Hook         // the hook of a request
	show    func(hook Hook) map[string]any // the hook of a response
	missing func(x *exchange)              // responds that there is no such hook
}

// hookID is what identifies a hook in paths.
func hookID(x *exchange, hook Hook) string {
	if x.kind == gitprovider.Bitbucket {
		return bitbucketUID(hook.ID)
	}
	return strconv.FormatInt(hook.ID, 10)
}

// list returns hooks for a response.
func (h webhooks) list(hooks []Hook) []any {
	list := []any{}
	for _, hook := range hooks {
		list = append(list, h.show(hook))
	}
	return list
}

// create handles POST .../hooks.
func (h webhooks) create(x *exchange) {
	if repository := h.open(x, "write"); repository != nil {
		x.respond(http.StatusCreated, h.show(x.addHook(repository, h.read(x))))
	}
}

// find returns the repository and the index of the hook in the path; the index
// is negative after an error response.
func (h webhooks) find(x *exchange, action string) (*Repository, int) {
	repository := h.open(x, action)
	if repository == nil {
		return nil, -1
	}
	i := slices.IndexFunc(repository.Hooks, func(hook Hook) bool { return hookID(x, hook) == x.r.PathValue("hook") })
	if i < 0 {
		h.missing(x)
	}
	return repository, i
}

// update handles PATCH and PUT .../hooks/{hook}.
func (h webhooks) update(x *exchange) {
	if repository, i := h.find(x, "write"); i >= 0 {
		hook := h.read(x)
		hook.ID = repository.Hooks[i].ID
		repository.Hooks[i] = hook
		x.respond(http.StatusOK, h.show(hook))
	}
}

// remove handles DELETE .../hooks/{hook}.
func (h webhooks) remove(x *exchange) {
	if repository, i := h.find(x, "delete"); i >= 0 {
		repository.Hooks = slices.Delete(repository.Hooks, i, i+1)
		x.respond(http.StatusNoContent, nil)
	}
}
