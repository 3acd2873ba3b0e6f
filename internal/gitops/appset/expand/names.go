package expand

import (
	"errors"
	"strings"
)

// maxName is the longest name of an object.
const maxName = 253

// Normalize returns a text that is valid in a name: lower case, a hyphen for
// every character but letters, digits, hyphens and dots, and cut to the length
// of a name.
func Normalize(text string) string {
	var name strings.Builder
	for _, char := range strings.ToLower(text) {
		if char >= 'a' && char <= 'z' || char >= '0' && char <= '9' || char == '-' || char == '.' {
			name.WriteRune(char)
		} else {
			name.WriteByte('-')
		}
	}
	cut := name.String()
	if len(cut) > maxName {
		cut = cut[:maxName]
	}
	return strings.Trim(cut, "-.")
}

// Slug returns a text as the label of a domain, as Argo CD does with branches:
// cut to 50 characters between words, with & and @ as words.
func Slug(text string) string {
	slug, _ := slugify(strings.NewReplacer("&", "and", "@", "at").Replace(text)) // a text is a valid argument
	return slug
}

// errSlugify is returned for arguments of other types or in another order.
var errSlugify = errors.New("slugify takes a text, and before it a length and whether words stay whole")

// slugify is Normalize without dots and with a maximum length, 50 by default.
// Words are not cut unless that is requested. Its last argument is the text.
func slugify(args ...any) (string, error) {
	length, whole, text := 50, true, ""
	for i, arg := range args {
		var ok bool
		switch {
		case i == len(args)-1:
			text, ok = arg.(string)
		case i == 0:
			length, ok = arg.(int)
		case i == 1:
			whole, ok = arg.(bool)
		}
		if !ok {
			return "", errSlugify
		}
	}
	// Normalize leaves ASCII only, so that a cut cannot split a character.
	words := strings.FieldsFunc(Normalize(text), func(char rune) bool { return char == '-' || char == '.' })
	slug := strings.Join(words, "-")
	if length <= 0 || len(slug) <= length {
		return slug, nil
	}
	if !whole || len(words[0]) > length {
		return strings.Trim(slug[:length], "-"), nil
	}
	short := words[0]
	for _, word := range words[1:] {
		if len(short)+1+len(word) > length {
			break
		}
		short += "-" + word
	}
	return short, nil
}
