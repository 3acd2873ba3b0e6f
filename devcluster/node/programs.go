package node

import "strings"

// WithPrograms returns a resolver of images that are programs of this machine,
// by their reference; next resolves all others. A reference without a tag
// stands for all of its tags.
//
// The owner of the machine chooses the programs, never a manifest.
func WithPrograms(programs map[string]string, next func(ref string) (Image, error)) func(ref string) (Image, error) {
	return func(ref string) (Image, error) {
		for _, key := range []string{ref, withoutTag(ref)} {
			if program, known := programs[key]; known {
				return Image{Program: program}, nil
			}
		}
		return next(ref)
	}
}

// withoutTag removes the tag and the digest of a reference. A colon before the
// last slash is that of a registry's port.
func withoutTag(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') {
		return ref[:colon]
	}
	return ref
}
