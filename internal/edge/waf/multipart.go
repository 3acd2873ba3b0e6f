package waf

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"

	"slipway.dev/slipway/internal/edge/filter"
)

// boundaryOf returns the boundary of a form with files, empty for other content types.
func boundaryOf(contentType []byte) string {
	if len(contentType) == 0 {
		return ""
	}
	kind, parameters, err := mime.ParseMediaType(string(contentType))
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return parameters["boundary"]
}

// fieldsWithin reports whether the parts of a form that are no files have at most limit
// bytes. The rules look at those, and not at the content of files, so that they take the
// time of an inspection. A form that cannot be read counts as a whole.
func fieldsWithin(body filter.BufferedBody, boundary string, limit int64) bool {
	var pieces []io.Reader
	if body.Each(func(piece []byte) error {
		pieces = append(pieces, bytes.NewReader(piece))
		return nil
	}) != nil {
		return false
	}
	parts := multipart.NewReader(io.MultiReader(pieces...), boundary)
	for {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		case part.FileName() != "":
			continue
		}
		n, err := io.Copy(io.Discard, io.LimitReader(part, limit+1))
		if limit -= n; limit < 0 || err != nil {
			return false
		}
	}
}
