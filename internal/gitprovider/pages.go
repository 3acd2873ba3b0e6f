package gitprovider

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
)

// readPages reads a list page by page. next takes the content of a page and
// changes the call to that for the following one; it returns false after the
// last.
func readPages[P any](ctx context.Context, c *client, call call, next func(page P, header http.Header, call *call) bool) error {
	for range maxPages {
		var page P
		call.into = &page
		got, err := c.do(ctx, call)
		if err != nil || !next(page, got.header, &call) {
			return err
		}
	}
	return invalid(c.kind, "the list at %s is too long to read", call.path)
}

// linkPages reads a list of GitHub or GitLab, following the Link header
// (RFC 8288). Its URL carries the page parameters.
func linkPages[T any](ctx context.Context, c *client, first call) (all []T, err error) {
	err = readPages(ctx, c, first, func(page []T, header http.Header, call *call) bool {
		all = append(all, page...)
		call.url = nextLink(header)
		return call.url != ""
	})
	return all, err
}

// firstPages is linkPages for the beginning of a long list.
func firstPages[T any](ctx context.Context, c *client, first call, pages int) (all []T, err error) {
	err = readPages(ctx, c, first, func(page []T, header http.Header, call *call) bool {
		all = append(all, page...)
		call.url = nextLink(header)
		pages--
		return call.url != "" && pages > 0
	})
	return all, err
}

// nextLink returns the URL with rel="next" of a Link header.
func nextLink(header http.Header) string {
	pattern := regexp.MustCompile(`<([^>]+)>\s*;[^,]*\brel="?next"?`)
	for _, value := range header.Values("Link") {
		if found := pattern.FindStringSubmatch(value); found != nil {
			return found[1]
		}
	}
	return ""
}

// nextPages reads a list of Bitbucket Cloud, following the URL in each page.
func nextPages[T any](ctx context.Context, c *client, first call) (all []T, err error) {
	type envelope struct {
		Values []T    `json:"values"`
		Next   string `json:"next"`
	}
	err = readPages(ctx, c, first, func(page envelope, _ http.Header, call *call) bool {
		all = append(all, page.Values...)
		call.url = page.Next
		return call.url != ""
	})
	return all, err
}

// serverPages reads a list of Bitbucket Server, which numbers its elements.
func serverPages[T any](ctx context.Context, c *client, first call) (all []T, err error) {
	type envelope struct {
		Values   []T  `json:"values"`
		LastPage bool `json:"isLastPage"`
		Next     *int `json:"nextPageStart"`
	}
	err = readPages(ctx, c, first, func(page envelope, _ http.Header, call *call) bool {
		all = append(all, page.Values...)
		if page.LastPage || page.Next == nil {
			return false
		}
		// The filter must be repeated for every page.
		call.query = url.Values{"start": {strconv.Itoa(*page.Next)}}
		maps.Copy(call.query, first.query)
		return true
	})
	return all, err
}
