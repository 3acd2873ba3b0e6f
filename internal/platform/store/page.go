package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// Sizes of pages.
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// maxTokenLength bounds a page token before it is decoded; it fits the
// longest names.
const maxTokenLength = 8 << 10

// Page selects a part of a list.
type Page struct {
	Size  int    // 0 means DefaultPageSize; capped at MaxPageSize
	Token string // next token of the previous page; empty for the first
}

// limit returns the effective page size.
func (p Page) limit() int {
	switch {
	case p.Size <= 0:
		return DefaultPageSize
	case p.Size > MaxPageSize:
		return MaxPageSize
	}
	return p.Size
}

// listID identifies a list: its type, account and filter. A page token is
// valid only for the list that issued it, so a filter cannot change between
// two pages.
type listID string

// newListID derives the ID of a list from its name and scope. The scope is
// hashed, so that a token does not reveal account and filter.
func newListID(name string, scope ...any) listID {
	text, err := json.Marshal(scope)
	if err != nil {
		// Accounts and filters are strings, maps of strings and times.
		panic("store: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return listID(name + ":" + base64.RawURLEncoding.EncodeToString(sum[:9]))
}

// pageToken holds the sort key of the last row of a page (keyset pagination).
// So rows that are added or removed elsewhere do not shift the next page.
type pageToken struct {
	List  listID   `json:"l"`
	After []string `json:"a"`
}

// token encodes the page token after a row with these sort columns.
func (l listID) token(after ...string) string {
	text, err := json.Marshal(pageToken{List: l, After: after})
	if err != nil {
		panic("store: " + err.Error()) // strings can be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// after decodes a page token: the sort columns of the last row, or nil for
// the first page.
func (l listID) after(token string, columns int) ([]string, error) {
	if token == "" {
		return nil, nil
	}
	// All malformed tokens get the same message: clients must treat tokens as
	// opaque.
	const refusal = "the page token is not one of this list: begin with the first page"
	if len(token) > maxTokenLength {
		return nil, invalid(refusal)
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return nil, invalid(refusal)
	}
	var parsed pageToken
	if err := json.Unmarshal(text, &parsed); err != nil || parsed.List != l || len(parsed.After) != columns {
		return nil, invalid(refusal)
	}
	return parsed.After, nil
}

// condition builds a WHERE clause with its arguments.
type condition struct {
	parts []string
	args  []any
}

// add appends a term in which each ? is the next argument. Both databases
// accept numbered placeholders ($1).
func (c *condition) add(part string, args ...any) {
	for _, arg := range args {
		c.args = append(c.args, arg)
		part = strings.Replace(part, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.parts = append(c.parts, part)
}

// addText appends a term unless the value is empty.
func (c *condition) addText(part, value string) {
	if value != "" {
		c.add(part, value)
	}
}

// beyond continues a list that is ordered by time and ID. The comparison is
// with the last row of the page before, such as "(at, id) <".
func (c *condition) beyond(list listID, token, comparison string) error {
	after, err := list.after(token, 2)
	if err != nil || after == nil {
		return err
	}
	at, err := strconv.ParseInt(after[0], 10, 64)
	if err != nil {
		return invalid("the page token is damaged: begin with the first page")
	}
	c.add(comparison+" (?, ?)", at, after[1])
	return nil
}

// limit returns a LIMIT clause for the last argument.
func (c *condition) limit() string { return " LIMIT $" + strconv.Itoa(len(c.args)) }

// where returns the WHERE clause. All terms must hold.
func (c *condition) where() string { return " WHERE " + strings.Join(c.parts, " AND ") }

// pageQuery is the query of one page.
type pageQuery struct {
	text  string
	args  []any
	limit int // rows of the page; the query returns one more
}

// query returns the query of a page. from is the part before the conditions.
func (p Page) query(from string, where condition, order string) pageQuery {
	where.args = append(where.args, p.limit()+1)
	return pageQuery{from + where.where() + " ORDER BY " + order + where.limit(), where.args, p.limit()}
}

// readPage runs the query of a page and returns the token of the next one.
func readPage[T any](ctx context.Context, s *Store, query pageQuery, scan func(row) (T, error), token func(last T) string) ([]T, string, error) {
	rows, err := readAll(ctx, s, scan, query.text, query.args...)
	rows, next := paginate(rows, query.limit, token)
	return rows, next, err
}

// paginate cuts rows to the page size and returns the token of the next page.
// Queries fetch one row more than the page, which shows whether there is a
// next one.
func paginate[T any](rows []T, limit int, token func(last T) string) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit]
	return rows, token(rows[limit-1])
}
