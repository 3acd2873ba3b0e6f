package shadow

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The kinds of causes.
const (
	CauseStatus         = "status"
	CauseRedirect       = "redirect"
	CauseHeaderMissing  = "header missing"
	CauseHeaderAdded    = "header added"
	CauseHeaderChanged  = "header changed"
	CauseHeaderRepeated = "header repeated"
	CauseCookieMissing  = "cookie missing"
	CauseCookieAdded    = "cookie added"
	CauseCookieChanged  = "cookie attributes"
	CauseBody           = "body"
	CauseBackend        = "backend"
	CauseTimeout        = FailureTimeout
	CauseRefused        = FailureRefused
	CauseConnection     = FailureConnection
	CauseTLS            = FailureTLS
)

// Causes returns the kinds of causes.
func Causes() []string {
	return []string{
		CauseStatus, CauseRedirect, CauseHeaderMissing, CauseHeaderAdded, CauseHeaderChanged, CauseHeaderRepeated, CauseCookieMissing, CauseCookieAdded,
		CauseCookieChanged, CauseBody, CauseBackend, CauseTimeout, CauseRefused, CauseConnection, CauseTLS,
	}
}

// Cause is what differs between two responses. Differences with the same cause, host and
// route are one group.
type Cause struct {
	Kind string `json:"kind"`
	// Name is the header or the cookie, the part of a redirect, or the controller that
	// failed.
	Name string `json:"name,omitempty"`
	// Change is the change of a status.
	Change string `json:"change,omitempty"`
}

// String is the cause for people.
func (c Cause) String() string {
	return strings.Join(strings.Fields(c.Kind+" "+c.Name+" "+c.Change), " ")
}

// family is what has to be stable for the cause to count. A header that is sometimes
// missing and sometimes another is one unstable header.
func (c Cause) family() string {
	switch c.Kind {
	case CauseHeaderMissing, CauseHeaderAdded, CauseHeaderChanged, CauseHeaderRepeated:
		return "header " + c.Name
	case CauseCookieMissing, CauseCookieAdded, CauseCookieChanged:
		return "cookie " + c.Name
	case CauseTimeout, CauseRefused, CauseConnection, CauseTLS, CauseStatus:
		return CauseStatus
	case CauseRedirect:
		return "header Location"
	}
	return c.Kind
}

// Difference is a cause with both values, for the example of a group.
type Difference struct {
	Cause
	Old, New string
}

// Comparer compares responses.
type Comparer struct {
	// ignored are headers, by canonical name, and kinds of causes.
	ignoredHeaders map[string]bool
	ignoredKinds   map[string]bool
}

// NewComparer returns a Comparer that leaves headers and kinds of causes out.
func NewComparer(headers, kinds []string) *Comparer {
	c := &Comparer{ignoredHeaders: map[string]bool{}, ignoredKinds: map[string]bool{}}
	for _, name := range headers {
		c.ignoredHeaders[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
	}
	for _, kind := range kinds {
		c.ignoredKinds[strings.TrimSpace(kind)] = true
	}
	return c
}

// Compare returns what differs. A response with another status is another response: its
// headers and its body are not compared.
func (c *Comparer) Compare(request *Request, scheme string, before, after *Response) []Difference {
	var found []Difference
	switch {
	case before.Failure != "" && after.Failure != "":
		// Both failed, which is no difference between them.
	case before.Failure != "":
		found = []Difference{{Cause{Kind: before.Failure, Name: "old"}, before.Err, after.summary()}}
	case after.Failure != "":
		found = []Difference{{Cause{Kind: after.Failure, Name: "new"}, before.summary(), after.Err}}
	case before.Status != after.Status:
		change := fmt.Sprintf("%d → %d", before.Status, after.Status)
		found = []Difference{{Cause{Kind: CauseStatus, Change: change}, before.summary(), after.summary()}}
	default:
		found = append(c.headers(request, before, after), redirects(request, scheme, before, after)...)
		found = append(found, cookies(before, after)...)
		found = append(found, bodies(request, before, after)...)
	}
	return c.kept(found...)
}

// kept returns the differences whose kind is not ignored.
func (c *Comparer) kept(found ...Difference) []Difference {
	return slices.DeleteFunc(found, func(d Difference) bool { return c.ignoredKinds[d.Kind] })
}

// summary describes a response in one line.
func (r *Response) summary() string {
	if r.Failure != "" {
		return r.Failure
	}
	text := fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status))
	if location := r.Header.Get("Location"); location != "" {
		text += " to " + redactURL(location)
	}
	return text
}

// headers compares the headers that have no comparison of their own.
func (c *Comparer) headers(request *Request, before, after *Response) []Difference {
	names := map[string]bool{}
	for name := range before.Header {
		names[name] = true
	}
	for name := range after.Header {
		names[name] = true
	}
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rule := headerRules[name]
		// The media type of a page that is not compared does not count either.
		if rule.ignored || c.ignoredHeaders[name] || name == "Content-Type" && !comparesPage(request, before, after) {
			continue
		}
		old, fresh := rule.normalValues(name, before.Header), rule.normalValues(name, after.Header)
		if slices.Equal(old, fresh) {
			continue
		}
		kind := CauseHeaderChanged
		switch {
		case len(fresh) == 0:
			kind = CauseHeaderMissing
		case len(old) == 0:
			kind = CauseHeaderAdded
		case slices.Equal(compacted(old), compacted(fresh)):
			kind = CauseHeaderRepeated
		}
		found = append(found, Difference{Cause{Kind: kind, Name: name}, shownHeader(name, before.Header), shownHeader(name, after.Header)})
	}
	return found
}

// compacted returns the values without repetitions, in order.
func compacted(values []string) []string {
	sorted := slices.Sorted(slices.Values(values))
	return slices.Compact(sorted)
}

// redirectParts are the parts of a Location in the order in which they are reported.
var redirectParts = []string{"scheme", "host", "path", "query", "fragment"}

// redirects compares the targets of redirects, part by part.
func redirects(request *Request, scheme string, before, after *Response) []Difference {
	old, fresh := before.Header.Get("Location"), after.Header.Get("Location")
	difference := func(kind, name string) []Difference {
		return []Difference{{Cause{Kind: kind, Name: name}, redactURL(old), redactURL(fresh)}}
	}
	switch {
	case old == fresh:
		return nil
	case fresh == "":
		return difference(CauseHeaderMissing, "Location")
	case old == "":
		return difference(CauseHeaderAdded, "Location")
	}
	was, is := redirectOf(old, scheme, request), redirectOf(fresh, scheme, request)
	var found []Difference
	for _, part := range redirectParts {
		if was[part] != is[part] {
			found = append(found, difference(CauseRedirect, part)...)
		}
	}
	return found
}

// cookies compares the cookies that are set, by name and attributes.
func cookies(before, after *Response) []Difference {
	old, fresh := cookiesOf(before.Header), cookiesOf(after.Header)
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(old)) {
		is, exists := fresh[name]
		switch {
		case !exists:
			found = append(found, Difference{Cause{Kind: CauseCookieMissing, Name: name}, old[name].attributes, ""})
		case is != old[name]:
			found = append(found, Difference{Cause{Kind: CauseCookieChanged, Name: name}, old[name].attributes, is.attributes})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		if _, exists := old[name]; !exists {
			found = append(found, Difference{Cause{Kind: CauseCookieAdded, Name: name}, "", fresh[name].attributes})
		}
	}
	return found
}

// comparesPage reports whether the page of a response counts. No client shows that of a
// redirect, and pages that both controllers make themselves for an error are different by
// nature. HEAD does not show whose page an error has.
func comparesPage(request *Request, before, after *Response) bool {
	redirect := before.Status >= 300 && before.Status < 400
	return !redirect && !(before.ownPage && after.ownPage) && !(request.Method == http.MethodHead && before.Status >= 400)
}

// bodies compares the bodies. Of HEAD the length is compared, if both have one.
func bodies(request *Request, before, after *Response) []Difference {
	old, fresh := before.Header.Get("Content-Length"), after.Header.Get("Content-Length")
	switch {
	case !comparesPage(request, before, after):
		return nil
	case request.Method == http.MethodHead:
		plain := before.Header.Get("Content-Encoding") == "" && after.Header.Get("Content-Encoding") == ""
		if plain && old != "" && fresh != "" && old != fresh {
			return []Difference{{Cause{Kind: CauseHeaderChanged, Name: "Content-Length"}, old, fresh}}
		}
		return nil
	case before.Hash == "" || after.Hash == "" || before.Hash == after.Hash && before.Truncated == after.Truncated:
		return nil
	}
	return []Difference{{Cause{Kind: CauseBody}, before.shownBody(), after.shownBody()}}
}

// shownBody describes a body without its content.
func (r *Response) shownBody() string {
	more := ""
	if r.Truncated {
		more = " and more"
	}
	return fmt.Sprintf("%d bytes%s, sha256 %.16s", r.Size, more, r.Hash)
}
