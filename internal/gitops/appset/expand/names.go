package expand

import (
	"errors"
	"strings"
	"unicode"
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
// Latin letters without their marks, & and @ as words, no quotes, and cut to 50
// characters between words.
func Slug(text string) string {
	var ascii strings.Builder
	for _, char := range strings.ToLower(text) {
		switch {
		case strings.ContainsRune(`"'’`, char) || unicode.Is(unicode.Mn, char): // quotes, and marks of the letter before
		case char < unicode.MaxASCII && char != '&' && char != '@':
			ascii.WriteRune(char)
		default:
			ascii.WriteString(asciiOf(char))
		}
	}
	slug, _ := slugify(ascii.String()) // a text is a valid argument
	return slug
}

// asciiOf returns a sign or a Latin letter in ASCII, and others as a hyphen.
func asciiOf(char rune) string {
	for _, group := range asciiOfSigns() {
		if strings.ContainsRune(group[1], char) {
			return group[0]
		}
	}
	return "-"
}

// asciiOfSigns has what signs and Latin letters become, and those.
func asciiOfSigns() [][2]string {
	return [][2]string{
		{"and", "&"}, {"at", "@"}, {"a", "àáâãäåāăą"}, {"ae", "æ"}, {"c", "çćĉċč"}, {"d", "ďđð"}, {"e", "èéêëēĕėęě"}, {"g", "ĝğġģ"}, {"h", "ĥħ"},
		{"i", "ìíîïĩīĭįı"}, {"j", "ĵ"}, {"k", "ķ"}, {"l", "ĺļľł"}, {"n", "ñńņň"}, {"o", "òóôõöøōŏő"}, {"oe", "œ"}, {"r", "ŕŗř"}, {"s", "śŝşš"},
		{"ss", "ß"}, {"t", "ţťŧ"}, {"th", "þ"}, {"u", "ùúûüũūŭůűų"}, {"w", "ŵ"}, {"y", "ýÿŷ"}, {"z", "źżž"},
	}
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
	// Normalize leaves ASCII only, so that a cut cannot split a character. A cut
	// within words is before hyphens are joined, as in Argo CD.
	name := Normalize(text)
	if !whole && len(name) >= max(length, 0) {
		name = name[:max(length, 0)]
	}
	words := strings.FieldsFunc(name, func(char rune) bool { return char == '-' || char == '.' })
	slug := strings.Join(words, "-")
	if !whole || length <= 0 || len(slug) <= length {
		return slug, nil
	}
	if len(words[0]) > length {
		return slug[:length], nil
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
