package store

import (
	"context"
	"strconv"
	"time"
)

// AuditEntry is something that somebody did. Texts are cut when they are long:
// Detail to 4 KiB, the others to 512 bytes.
type AuditEntry struct {
	ID, AccountID                                              string
	At                                                         time.Time
	Actor, ActorKind, Action, Target, Outcome, Detail, Address string
}

const (
	maxAuditDetail = 4 << 10
	maxAuditText   = 512
	// expireBatch is how many entries are removed at once, so that others can write
	// in between.
	expireBatch = 5000
)

// AuditFilter says which entries a list has. What is empty does not matter.
type AuditFilter struct {
	Since, Until          time.Time // Since included, Until not
	Actor, Action, Target string
}

const auditColumns = "id, account_id, at, actor, actor_kind, action, target, outcome, detail, address"

func scanAudit(r row) (e AuditEntry, err error) {
	return e, r.Scan(&e.ID, &e.AccountID, timeColumn{&e.At}, &e.Actor, &e.ActorKind, &e.Action, &e.Target, &e.Outcome, &e.Detail, &e.Address)
}

// AppendAudit stores an entry. It gets an ID and a time if it has none.
func (s *Store) AppendAudit(ctx context.Context, entry AuditEntry) error {
	s.identify(&entry.ID, &entry.At)
	for _, text := range []*string{&entry.Actor, &entry.ActorKind, &entry.Action, &entry.Target, &entry.Outcome, &entry.Address} {
		*text = shortened(*text, maxAuditText)
	}
	entry.Detail = shortened(entry.Detail, maxAuditDetail)
	return s.write(ctx, func(c *call) error {
		_, err := c.exec("INSERT INTO audit_entries ("+auditColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			entry.ID, entry.AccountID, micros(entry.At), entry.Actor, entry.ActorKind, entry.Action, entry.Target, entry.Outcome, entry.Detail, entry.Address)
		return orConflict(err, "an audit entry with the ID %s", entry.ID)
	})
}

// AuditEntries lists entries of an account, the newest first.
func (s *Store) AuditEntries(ctx context.Context, accountID string, filter AuditFilter, page Page) (entries []AuditEntry, next string, err error) {
	list := newListing("audit", accountID, filter)
	query, args, err := auditQuery(list, accountID, filter, page)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, func(c *call) error {
		entries, err = queryAll(c, scanAudit, query, args...)
		return err
	})
	entries, next = cut(entries, page.limit(), func(last AuditEntry) string {
		return list.token(strconv.FormatInt(micros(last.At), 10), last.ID)
	})
	return entries, next, err
}

func auditQuery(list listing, accountID string, filter AuditFilter, page Page) (string, []any, error) {
	var where condition
	where.add("account_id = ?", accountID)
	where.addText("actor = ?", filter.Actor)
	where.addText("action = ?", filter.Action)
	where.addText("target = ?", filter.Target)
	if !filter.Since.IsZero() {
		where.add("at >= ?", micros(filter.Since))
	}
	if !filter.Until.IsZero() {
		where.add("at < ?", micros(filter.Until))
	}
	if err := where.before(list, page.Token, "(at, id)"); err != nil {
		return "", nil, err
	}
	where.args = append(where.args, page.limit()+1)
	return "SELECT " + auditColumns + " FROM audit_entries" + where.where() + " ORDER BY at DESC, id DESC" + where.limit(), where.args, nil
}

// ExpireAudit removes the entries of all accounts that are older, and says how
// many.
func (s *Store) ExpireAudit(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n := 0
		err := s.write(ctx, func(c *call) (err error) {
			n, err = c.exec("DELETE FROM audit_entries WHERE id IN (SELECT id FROM audit_entries WHERE at < $1 ORDER BY at LIMIT $2)", micros(before), expireBatch)
			return err
		})
		removed += n
		if err != nil || n < expireBatch {
			return removed, err
		}
	}
}
