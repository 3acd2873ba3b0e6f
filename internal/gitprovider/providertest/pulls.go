package providertest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitprovider"
)

// Pull is a pull request.
type Pull struct {
	Number      int64
	Title, Body string
	Head, Base  string
	HeadSHA     string
	MergeSHA    string
	State       gitprovider.PullRequestState
	Labels      []string
	Author      string
	// Fork is the path of the repository that has the branch; empty for the same.
	Fork     string
	Comments []PullComment
}

// PullComment is a comment on a pull request.
type PullComment struct {
	ID      int64
	Text    string
	Version int
	// Foreign is set if another user wrote it, so that the token cannot change it.
	Foreign bool
}

// Pulls returns the pull requests of a repository, in the order of their numbers.
func (s *Server) Pulls(path string) []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	repository := s.find(path)
	if repository == nil {
		return nil
	}
	// Copies: handlers change comments in place.
	pulls := slices.Clone(repository.Pulls)
	for i := range pulls {
		pulls[i].Comments = slices.Clone(pulls[i].Comments)
	}
	return pulls
}

// ChangePulls changes the pull requests of a repository.
func (s *Server) ChangePulls(path string, change func(pulls []Pull) []Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repository := s.find(path); repository != nil {
		repository.Pulls = change(repository.Pulls)
	}
}

// pullCalls are what the calls of pull requests differ in.
type pullCalls struct {
	// open returns the repository if the token may read or write its pull requests.
	// Otherwise it responds with the error and returns nil.
	open func(x *exchange, write bool) *Repository
	// selects reports whether a pull request is in a list.
	selects func(x *exchange, pull Pull) bool
	show    func(x *exchange, of *Repository, pull Pull) map[string]any
	read    func(x *exchange) Pull
	// list and comments write the elements of a list.
	list        func(x *exchange, elements []any)
	comments    func(x *exchange, elements []any)
	showComment func(comment PullComment) map[string]any
	text        func(x *exchange) string
	// problem writes an error.
	problem   func(x *exchange, status int, message string)
	duplicate int // the status of a second pull request
}

// listPulls serves the list of pull requests, the newest first.
func (c pullCalls) listPulls(x *exchange) {
	of := c.open(x, false)
	if of == nil {
		return
	}
	found := []any{}
	for _, pull := range slices.Backward(of.Pulls) {
		if c.selects(x, pull) {
			found = append(found, c.show(x, of, pull))
		}
	}
	c.list(x, found)
}

// create serves the call that opens a pull request.
func (c pullCalls) create(x *exchange) {
	of := c.open(x, true)
	if of == nil {
		return
	}
	// The order of the checks is that of the providers: fields before duplicates.
	made := c.read(x)
	if made.Head == "" || made.Base == "" || made.Title == "" {
		c.problem(x, http.StatusUnprocessableEntity, "a branch or the title is missing")
		return
	}
	if slices.ContainsFunc(of.Pulls, func(one Pull) bool {
		return one.Head == made.Head && one.Base == made.Base && one.State == gitprovider.PullRequestOpen && one.Fork == ""
	}) {
		c.problem(x, c.duplicate, "A pull request already exists for "+made.Head)
		return
	}
	made.Number, made.State, made.Author = int64(len(of.Pulls)+1), gitprovider.PullRequestOpen, x.token.Login
	if made.HeadSHA == "" {
		made.HeadSHA = strings.Repeat("a", 40)
	}
	of.Pulls = append(of.Pulls, made)
	x.respond(http.StatusCreated, c.show(x, of, made))
}

// find returns the pull request in the path; nil after an error response.
func (c pullCalls) find(x *exchange, write bool) (*Repository, *Pull) {
	of := c.open(x, write)
	if of == nil {
		return nil, nil
	}
	for i := range of.Pulls {
		if strconv.FormatInt(of.Pulls[i].Number, 10) == x.r.PathValue("number") {
			return of, &of.Pulls[i]
		}
	}
	c.problem(x, http.StatusNotFound, "Not Found")
	return nil, nil
}

// get serves one pull request.
func (c pullCalls) get(x *exchange) {
	if of, pull := c.find(x, false); pull != nil {
		x.respond(http.StatusOK, c.show(x, of, *pull))
	}
}

// listComments serves the comments of a pull request.
func (c pullCalls) listComments(x *exchange) {
	_, pull := c.find(x, false)
	if pull == nil {
		return
	}
	found := []any{}
	for _, comment := range pull.Comments {
		found = append(found, c.showComment(comment))
	}
	c.comments(x, found)
}

// addComment serves the call that adds a comment.
func (c pullCalls) addComment(x *exchange) {
	_, pull := c.find(x, true)
	if pull == nil {
		return
	}
	x.nextID++
	made := PullComment{ID: x.nextID, Text: c.text(x)}
	pull.Comments = append(pull.Comments, made)
	x.respond(http.StatusCreated, c.showComment(made))
}

// editComment serves the call that changes a comment, whose path may have no number
// of a pull request.
func (c pullCalls) editComment(x *exchange) {
	of := c.open(x, true)
	if of == nil {
		return
	}
	// GitHub's path has no number of a pull request, so that all are searched.
	for i := range of.Pulls {
		for j := range of.Pulls[i].Comments {
			comment := &of.Pulls[i].Comments[j]
			if strconv.FormatInt(comment.ID, 10) != x.r.PathValue("comment") {
				continue
			}
			if comment.Foreign {
				c.problem(x, http.StatusForbidden, "the comment is of another user")
				return
			}
			// Bitbucket Server only: a change names the version that it is based on.
			if version, given := x.body["version"]; given && version != float64(comment.Version) {
				c.problem(x, http.StatusConflict, "the comment has another version")
				return
			}
			comment.Text = c.text(x)
			comment.Version++
			x.respond(http.StatusOK, c.showComment(*comment))
			return
		}
	}
	c.problem(x, http.StatusNotFound, "Not Found")
}

// anyOf reports whether a parameter, which may be repeated, has a value.
func anyOf(x *exchange, name, value string) bool {
	return slices.Contains(x.r.URL.Query()[name], value)
}

// plainList writes a list without an envelope.
func plainList(x *exchange, elements []any) { x.respond(http.StatusOK, elements) }

// pagedList writes a page of a list, of a default size.
func pagedList(otherwise int) func(*exchange, []any) {
	return func(x *exchange, elements []any) { x.respond(http.StatusOK, pageOf(x, elements, otherwise)) }
}
