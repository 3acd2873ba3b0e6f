package apiclient

import (
	"context"
	"errors"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// errEnough ends AllPages early, when a limit is reached. It never leaves
// AuditEntries.
var errEnough = errors.New("that is enough")

// AuditEntries returns the newest entries that match, at most limit of them; 0
// means all. It reports whether there are more, which the extra entries of the
// last page or its token show without another request.
func (c *Client) AuditEntries(ctx context.Context, wanted *platformv1.ListEntriesRequest, limit int) ([]*platformv1.AuditEntry, bool, error) {
	var entries []*platformv1.AuditEntry
	more := false
	// The callback collects the entries itself: AllPages drops its list when it
	// ends with an error, and errEnough is one.
	_, err := AllPages(func(page string) ([]*platformv1.AuditEntry, string, error) {
		wanted.PageSize, wanted.PageToken = PageSize, page
		response, err := Call(ctx, c, c.audit().ListEntries, wanted)
		entries = append(entries, response.GetEntries()...)
		if err == nil && limit > 0 && len(entries) >= limit {
			more = len(entries) > limit || response.GetNextPageToken() != ""
			entries = entries[:limit]
			return nil, "", errEnough
		}
		return nil, response.GetNextPageToken(), err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return entries, more, err
}
