package apiclient

import (
	"context"
	"errors"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// errEnough ends a list early, when a limit is reached. It never leaves
// AuditEntries.
var errEnough = errors.New("that is enough")

// AuditEntries returns the newest entries that match, at most limit of them; 0
// means all. It reports whether there are more.
func (c *Client) AuditEntries(ctx context.Context, wanted *platformv1.ListEntriesRequest, limit int) ([]*platformv1.AuditEntry, bool, error) {
	var entries []*platformv1.AuditEntry
	err := c.EachAuditEntry(ctx, wanted, func(entry *platformv1.AuditEntry) error {
		if limit > 0 && len(entries) == limit {
			return errEnough
		}
		entries = append(entries, entry)
		return nil
	})
	if errors.Is(err, errEnough) {
		return entries, true, nil
	}
	return entries, false, err
}

// EachAuditEntry calls a function for each entry that matches, in the order of
// the request, until it fails. It holds one page at a time.
func (c *Client) EachAuditEntry(ctx context.Context, wanted *platformv1.ListEntriesRequest, each func(*platformv1.AuditEntry) error) error {
	_, err := AllPages(func(page string) ([]*platformv1.AuditEntry, string, error) {
		wanted.PageSize, wanted.PageToken = PageSize, page
		response, err := Call(ctx, c, c.audit().ListEntries, wanted)
		if err != nil {
			return nil, "", err
		}
		for _, entry := range response.GetEntries() {
			if err := each(entry); err != nil {
				return nil, "", err
			}
		}
		return nil, response.GetNextPageToken(), nil
	})
	return err
}
