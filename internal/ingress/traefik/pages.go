package traefik

import (
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// errorPages converts error pages. The server of the pages is a Service, as for
// authentication.
func (s *step) errorPages(r *record) *route.Policy {
	pages := &route.ErrorPages{Statuses: statusRanges(r, "status"), Path: pagePath(r)}
	r.refuse("statusRewrites", "an error keeps its status; remove it")
	r.refuse("errorRequestHeaders", "the server of the pages gets Accept, Accept-Language and X-Forwarded headers; remove it")
	// The service has added its faults if it is not found; r.rest still runs
	// for the other fields.
	backend, found := s.service(r.inner("service"))
	r.rest()
	if !found {
		return nil
	}
	pages.Backend = backend
	return &route.Policy{ErrorPages: pages}
}

// pathCharacters need no escape in a path (RFC 3986, section 3.3). The percent
// sign is not one of them, so that an escape is refused.
const pathCharacters = "/-._~!$&'()*+,;=:@0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// pagePath reads the path of the request for a page.
func pagePath(r *record) string {
	path := rooted(r.text("query"))
	// Statuses are not rewritten, so {originalStatus} equals {status}.
	path = strings.ReplaceAll(path, "{originalStatus}", "{status}")
	switch {
	case strings.Contains(path, "{url}"):
		r.fault("query", refusal.Unsupported, "{url} has no value here: read the header X-Forwarded-Uri")
	case strings.ContainsAny(path, "?#"):
		r.fault("query", refusal.Unsupported, "the path of a page has no ? and #: write one such as /{status}.html")
	case strings.Trim(strings.ReplaceAll(path, "{status}", "0"), pathCharacters) != "":
		r.fault("query", refusal.Invalid, "it has a character that is not for paths: write one such as /{status}.html")
	}
	return path
}

// maxStatuses bounds the ranges of one list.
const maxStatuses = 64

// statusRanges reads a list of statuses: each entry has numbers and ranges,
// separated by commas. The first invalid part discards the list.
func statusRanges(r *record, name string) []route.StatusRange {
	var ranges []route.StatusRange
	for _, entry := range r.texts(name) {
		for part := range strings.SplitSeq(entry, ",") {
			first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
			if !isRange {
				last = first
			}
			// Ten bits hold every status, so larger numbers fail to parse.
			from, err := strconv.ParseUint(strings.TrimSpace(first), 10, 10)
			to, errTo := strconv.ParseUint(strings.TrimSpace(last), 10, 10)
			switch {
			case err != nil || errTo != nil || from < 100 || to > 599 || from > to:
				r.fault(name, refusal.Invalid, "%q is neither a status nor a range of them: write 404 or 500-599", brief(part))
				return nil
			case len(ranges) == maxStatuses:
				r.fault(name, refusal.TooLarge, "there are more than %d ranges: put them together", maxStatuses)
				return nil
			}
			ranges = append(ranges, route.StatusRange{From: int(from), To: int(to)})
		}
	}
	return ranges
}
