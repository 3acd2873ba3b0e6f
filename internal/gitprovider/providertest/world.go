package providertest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitprovider"
)

// role returns the token's role on a repository, from its own entry or the
// nearest owner's; direct distinguishes the two.
func (x *exchange) role(path string) (role string, direct bool) {
	if role := x.token.Roles[path]; role != "" {
		return role, true
	}
	// Groups of GitLab are nested, so every parent is tried.
	for owner := path; strings.Contains(owner, "/"); {
		owner = owner[:strings.LastIndex(owner, "/")]
		if role := x.token.Roles[owner]; role != "" {
			return role, false
		}
	}
	return "", false
}

// repository returns a repository that the token can see.
func (x *exchange) repository(path string) *Repository {
	found := x.find(path)
	if found == nil {
		return nil
	}
	// Public repositories are visible to every token.
	if role, _ := x.role(found.Path); role == "" && found.Private {
		return nil
	}
	return found
}

// create adds a repository, with the token's user as its admin.
func (x *exchange) create(path string, private bool) *Repository {
	x.world.Repositories = append(x.world.Repositories, Repository{Path: path, Private: private, Empty: true})
	if x.Created != nil {
		x.Created(path)
	}
	return &x.world.Repositories[len(x.world.Repositories)-1]
}

// addHook adds a webhook with the next ID.
func (x *exchange) addHook(repository *Repository, hook Hook) Hook {
	// IDs are unique across repositories, so that a wrong repository is
	// noticed.
	x.nextID++
	hook.ID = x.nextID
	repository.Hooks = append(repository.Hooks, hook)
	return hook
}

// scoped reports whether the token has one of the scopes.
func (x *exchange) scoped(scopes ...string) bool {
	return slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(x.token.Scopes, scope) })
}

// number returns a query parameter as a number, or a default.
func (x *exchange) number(name string, otherwise int) int {
	text := x.r.URL.Query().Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		x.undocumented("the parameter %s=%s is no number", name, text)
		return otherwise
	}
	return n
}

// pageOf returns a page of at most 100 elements and sets the Link header, as
// GitHub and GitLab do.
func pageOf[T any](x *exchange, all []T, otherwise int) []T {
	// Both providers cap the page size at 100.
	size := min(x.number("per_page", otherwise), 100)
	page := max(x.number("page", 1), 1)
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		next := *x.r.URL
		query := next.Query()
		query.Set("page", strconv.Itoa(page+1))
		next.RawQuery = query.Encode()
		// The order of the links is not documented, so the client must find
		// rel="next" by itself.
		last := `<` + x.origin + next.RequestURI() + `>; rel="last"`
		x.w.Header().Set("Link", `<`+x.origin+next.RequestURI()+`>; rel="next", `+last)
	}
	return all[from:to]
}

// texts, text and flag read values of a decoded body; other types become zero
// values.
func texts(value any) []string {
	var list []string
	if array, ok := value.([]any); ok {
		for _, one := range array {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
	}
	return list
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func flag(value any) bool {
	b, _ := value.(bool)
	return b
}

// unauthorized writes each provider's response to an invalid token.
func unauthorized(x *exchange) {
	switch x.kind {
	case gitprovider.GitHub:
		x.respond(http.StatusUnauthorized, map[string]any{"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"})
	case gitprovider.GitLab:
		body := map[string]any{"message": "401 Unauthorized"}
		if x.token != nil && x.token.Expired {
			body = map[string]any{"error": "invalid_token", "error_description": "Token is expired. You can either do re-authorization or token refresh."}
		} else if x.token != nil {
			body = map[string]any{"error": "invalid_token", "error_description": "Token was revoked. You have to re-authorize from the user."}
		}
		x.respond(http.StatusUnauthorized, body)
	case gitprovider.Bitbucket:
		x.respond(http.StatusUnauthorized, map[string]any{"type": "error", "error": map[string]any{"message": "Token is invalid, expired, or not supported for this endpoint."}})
	default:
		serverError(x, http.StatusUnauthorized, "Authentication failed. Please check your credentials and try again.", "com.atlassian.bitbucket.auth.IncorrectPasswordAuthenticationException")
	}
}

// serverError writes the error body of Bitbucket Server.
func serverError(x *exchange, status int, message, exception string) {
	x.respond(status, map[string]any{"errors": []any{map[string]any{"context": nil, "message": message, "exceptionName": exception}}})
}
