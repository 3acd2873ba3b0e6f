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

// micros is how a time is stored. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeColumn reads a time that is stored as micros.
type timeColumn struct{ to *time.Time }

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

// blob is how bytes are stored: never as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// blobColumn reads bytes. None is nil.
type blobColumn struct{ to *[]byte }

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

// jsonText is how a list or a map is stored.
func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// Only strings are in what is stored so.
		panic("store: " + err.Error())
	}
	return string(text)
}

// jsonColumn reads what jsonText made.
type jsonColumn struct{ to any }

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

// newID makes 24 hexadecimal digits that nobody guesses.
func newID() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// folded is the spelling of an email by which it is found. The detour over upper
// case makes letters alike that only have that in common, such as K and the sign
// for Kelvin.
func folded(email string) string {
	return strings.ToLower(strings.ToUpper(strings.TrimSpace(email)))
}

// shortened cuts a text to so many bytes, between characters.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
