package store

import (
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

// maxTokenLength is more than the longest names make.
const maxTokenLength = 8 << 10

// Page is a part of a list.
type Page struct {
	Size  int    // zero: DefaultPageSize; more than MaxPageSize is that
	Token string // from the list before; empty for the first
}

func (p Page) limit() int {
	switch {
	case p.Size <= 0:
		return DefaultPageSize
	case p.Size > MaxPageSize:
		return MaxPageSize
	}
	return p.Size
}

// listing names a list: what it has, and of which account and filter. A token is
// only good for the list that gave it.
type listing string

func newListing(name string, scope ...any) listing {
	text, err := json.Marshal(scope)
	if err != nil {
		// Accounts and filters are strings, maps of strings and times.
		panic("store: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return listing(name + ":" + base64.RawURLEncoding.EncodeToString(sum[:9]))
}

// pageToken is the place of the last row of a page in the order of its list. So
// rows that come and go elsewhere do not move the next page.
type pageToken struct {
	List  listing  `json:"l"`
	After []string `json:"a"`
}

func (l listing) token(after ...string) string {
	text, err := json.Marshal(pageToken{List: l, After: after})
	if err != nil {
		panic("store: " + err.Error()) // strings can be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// after reads a token: the columns of the last row, or nil for the first page.
func (l listing) after(token string, columns int) ([]string, error) {
	if token == "" {
		return nil, nil
	}
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

// condition collects what a WHERE has, with its arguments.
type condition struct {
	parts []string
	args  []any
}

// add takes a part in which each ? is the next argument.
func (c *condition) add(part string, args ...any) {
	for _, arg := range args {
		c.args = append(c.args, arg)
		part = strings.Replace(part, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.parts = append(c.parts, part)
}

// addText is add for a filter that is not there when it is empty.
func (c *condition) addText(part, value string) {
	if value != "" {
		c.add(part, value)
	}
}

// before continues a list that goes from the newest to the oldest: its columns
// are a time and an ID.
func (c *condition) before(list listing, token, columns string) error {
	after, err := list.after(token, 2)
	if err != nil || after == nil {
		return err
	}
	at, err := strconv.ParseInt(after[0], 10, 64)
	if err != nil {
		return invalid("the page token is damaged: begin with the first page")
	}
	c.add(columns+" < (?, ?)", at, after[1])
	return nil
}

// limit is for the last argument.
func (c *condition) limit() string { return " LIMIT $" + strconv.Itoa(len(c.args)) }

func (c *condition) where() string { return " WHERE " + strings.Join(c.parts, " AND ") }

// cut leaves the rows of a page, of which one too many was asked for, and gives
// the token of the next.
func cut[T any](rows []T, limit int, token func(last T) string) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit]
	return rows, token(rows[limit-1])
}
