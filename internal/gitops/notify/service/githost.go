package service

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gitSection is the part of templates for GitHub and GitLab. The first two fields are
// rendered to the repository and the revision.
type gitSection struct {
	RepoURL            string          `json:"repoURLPath"`
	Revision           string          `json:"revisionPath"`
	Status             *gitStatus      `json:"status"`
	Deployment         *gitDeployment  `json:"deployment"`
	PullRequestComment *gitComment     `json:"pullRequestComment"`
	CheckRun           json.RawMessage `json:"checkRun"`
	RepositoryDispatch json.RawMessage `json:"repositoryDispatch"`
}

// gitStatus is a status of a commit.
type gitStatus struct {
	State     string `json:"state"`
	Label     string `json:"label"`
	TargetURL string `json:"targetURL"`
}

// gitDeployment is a deployment of a commit to an environment.
type gitDeployment struct {
	State                string   `json:"state"`
	Environment          string   `json:"environment"`
	EnvironmentURL       string   `json:"environmentURL"`
	LogURL               string   `json:"logURL"`
	RequiredContexts     []string `json:"requiredContexts"`
	AutoMerge            *bool    `json:"autoMerge"`
	TransientEnvironment *bool    `json:"transientEnvironment"`
	Reference            string   `json:"reference"`
}

// gitComment is a comment on the pull requests of a commit. With a tag there is one of
// them, which is changed.
type gitComment struct {
	Content    string `json:"content"`
	CommentTag string `json:"commentTag"`
}

// The limits of the hosts.
const (
	maxDescription = 140
	maxComment     = 60_000
	// pageSize is the largest page of a list, which has comments of 64 KiB at most.
	pageSize = 100
	maxPage  = pageSize * 64 << 10
	// maxPages bounds how much of a list is read.
	maxPages = 30
)

// marker is a line of a comment, invisible: by its tag, or by the key of the message.
func (c *gitComment) marker(message *Message) string {
	return "<!-- argocd-notifications " + cmp.Or(c.CommentTag, message.Key) + " -->"
}

// text is a comment with its marker.
func (c *gitComment) text(message *Message) string {
	return cut(c.Content, maxComment) + "\n" + c.marker(message)
}

// hostComment is a comment at the host.
type hostComment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
}

// write adds the comment to the list at a path, or changes the one that has its marker. A
// process that was killed after it wrote the comment, and before it recorded that, has
// left it there: the same text is not written again.
func (c *gitComment) write(ctx context.Context, a *api, message *Message, path string, change func(id int64) (method, path string)) error {
	method, at := http.MethodPost, path
	same := false
	err := eachOf(ctx, a, path, url.Values{}, func(one hostComment) bool {
		// A reply that quotes a comment has its marker behind a sign.
		found := slices.ContainsFunc(strings.Split(one.Body, "\n"), func(line string) bool { return strings.TrimSpace(line) == c.marker(message) })
		if found {
			method, at = change(one.ID)
			same = strings.ReplaceAll(one.Body, "\r\n", "\n") == c.text(message)
		}
		return !found
	})
	if err != nil || same {
		return err
	}
	return a.call(ctx, method, at, map[string]string{"body": c.text(message)}, nil)
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// revisionPattern is a commit. It becomes a part of a path.
var revisionPattern = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// target reads the section, and checks that its repository is at the host of the service:
// Applications of tenants name repositories, and the credential is that of the service.
func (s *gitSection) target(message *Message, kind string, hosts []string) (path string, err error) {
	has, err := section(message, s)
	switch {
	case err != nil:
		return "", err
	case !has:
		return "", permanent("the template %s has no section %s", message.Template, kind)
	case s.CheckRun != nil || s.RepositoryDispatch != nil:
		return "", permanent("the template %s has checkRun or repositoryDispatch, which are not supported: use status or a webhook", message.Template)
	case !revisionPattern.MatchString(s.Revision):
		return "", permanent("%q is no commit: the Application has none, or the template has another revisionPath", cut(s.Revision, 100))
	}
	host, path := splitRepository(s.RepoURL)
	if !slices.Contains(hosts, host) {
		return "", permanent("the repository is at %s, and the service is for %s", cmp.Or(host, "no host"), strings.Join(hosts, ", "))
	}
	return path, nil
}

// scpAddress is an address such as git@host:path.
var scpAddress = regexp.MustCompile(`^(?:[\w.+-]+@)?([\w.-]+):([^/].*)$`)

// splitRepository returns the host of a repository, without a port, and its path.
func splitRepository(address string) (host, path string) {
	if found := scpAddress.FindStringSubmatch(address); found != nil && !strings.Contains(address, "://") {
		host, path = found[1], found[2]
	} else if parsed, err := url.Parse(address); err == nil {
		host, path = parsed.Hostname(), parsed.Path
	}
	return strings.ToLower(host), strings.Trim(strings.TrimSuffix(strings.Trim(path, "/"), ".git"), "/")
}

// api calls a host of repositories.
type api struct {
	address string
	client  *http.Client
	// authorize sets the credential of a request.
	authorize func(ctx context.Context, header http.Header) error
}

// call sends a request with a JSON body, or without one, and decodes the response into
// something, or not.
func (a *api) call(ctx context.Context, method, path string, body, into any) error {
	request := &exchange{method: method, url: a.address + path, header: http.Header{}, limit: maxPage}
	if body != nil {
		var err error
		if request, err = postJSON(a.address+path, body); err != nil {
			return err
		}
		request.method = method
	}
	if err := a.authorize(ctx, request.header); err != nil {
		return err
	}
	if err := request.do(ctx, a.client); err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	return request.decode(into)
}

// eachOf calls visit with the elements of a list, page by page, until it returns false.
// A page that is not full is the last one: the headers with the next page differ between
// hosts and versions. A list that is too long is an error, because to write without
// having read its end could write the same twice.
func eachOf[T any](ctx context.Context, a *api, path string, query url.Values, visit func(one T) (more bool)) error {
	query.Set("per_page", strconv.Itoa(pageSize))
	for page := range maxPages {
		query.Set("page", strconv.Itoa(page+1))
		var found []T
		if err := a.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &found); err != nil {
			return err
		}
		for _, one := range found {
			if !visit(one) {
				return nil
			}
		}
		if len(found) < pageSize {
			return nil
		}
	}
	return permanent("the list at %s has more than %d entries: it is not read to its end, and nothing is written", path, maxPages*pageSize)
}
