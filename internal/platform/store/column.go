package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// micros converts a time to its stored form. The zero time is 0, because NULL
// would need a special case in every comparison.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeColumn scans a time that is stored as microseconds.
type timeColumn struct{ to *time.Time }

// Scan implements sql.Scanner.
func (c timeColumn) Scan(from any) error {
	n, ok := from.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", from)
	}
	*c.to = time.Time{}
	if n != 0 {
		*c.to = time.UnixMicro(n).UTC()
	}
	return nil
}

// blob returns bytes as they are stored: never NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// blobColumn scans bytes; an absent value becomes nil. The bytes are copied,
// because the driver reuses its buffer.
type blobColumn struct{ to *[]byte }

// Scan implements sql.Scanner.
func (c blobColumn) Scan(from any) error {
	switch from := from.(type) {
	case nil:
		*c.to = nil
	case []byte:
		*c.to = append([]byte(nil), from...)
	default:
		return fmt.Errorf("bytes are stored as %T", from)
	}
	return nil
}

// jsonText encodes a list or a map for a text column.
func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// The values consist of strings, which always marshal.
		panic("store: " + err.Error())
	}
	return string(text)
}

// jsonColumn scans a value of jsonText.
type jsonColumn struct{ to any }

// Scan implements sql.Scanner. SQLite returns text as string or bytes,
// depending on how it was written.
func (c jsonColumn) Scan(from any) error {
	switch from := from.(type) {
	case string:
		return json.Unmarshal([]byte(from), c.to)
	case []byte:
		return json.Unmarshal(bytes.Clone(from), c.to)
	default:
		return fmt.Errorf("JSON is stored as %T", from)
	}
}

// newID returns 24 random hexadecimal digits (96 bits).
func newID() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// foldEmail returns the case-folded form of an email, which is its unique
// key. Converting to upper case first also folds letters such as the Kelvin
// sign, which only maps to k that way.
func foldEmail(email string) string {
	return strings.ToLower(strings.ToUpper(strings.TrimSpace(email)))
}

// truncate cuts a text to a number of bytes at a character boundary.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
