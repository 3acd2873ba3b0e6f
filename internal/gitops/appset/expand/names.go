package expand

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gosimple/unidecode"
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

// Slug returns the name of a branch as the label of a domain, as Argo CD does: all
// scripts in Latin letters, and cut to 50 characters between words.
func Slug(branch string) string {
	return slugOf(strings.ReplaceAll(branch, "_", "-"), slugLength, true)
}

// slugLength is the default for the longest slug.
const slugLength = 50

// errSlugify is returned for arguments of other types or in another order.
var errSlugify = errors.New("slugify takes a text, and before it a length and whether words stay whole")

// slugify is a slug of the normalized text, which is the last argument. The length
// and whether words stay whole come before it; others are ignored, as in Argo CD.
func slugify(args ...any) (string, error) {
	length, whole, text := slugLength, true, ""
	for i, arg := range args {
		ok := true
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
	if !whole && length < 0 {
		return "", fmt.Errorf("slugify cannot cut at %d: write a length from 0", length)
	}
	return slugOf(Normalize(text), length, whole), nil
}

// wordSigns are signs that are words of a slug, or nothing; other signs separate
// words. The order of the steps is that of Argo CD's library, github.com/gosimple/slug,
// whose settings are global variables.
var wordSigns = strings.NewReplacer("&", "and", "@", "at", `"`, "", "'", "", "’", "", "‒", "-", "–", "-", "—", "-", "―", "-")

// slugOf returns the words of a text with hyphens between them. A length of 0, or
// less, is none if words stay whole; otherwise the cut comes before hyphens are joined.
func slugOf(text string, length int, whole bool) string {
	ascii := strings.ToLower(unidecode.Unidecode(wordSigns.Replace(text)))
	if !whole && len(ascii) >= length {
		ascii = ascii[:length]
	}
	slug := strings.Trim(otherSigns.ReplaceAllString(ascii, "-"), "-_")
	if !whole || length <= 0 || len(slug) <= length {
		return slug
	}
	// A hyphen directly behind the cut ends a whole word, too.
	if end := strings.LastIndexByte(slug[:length+1], '-'); end >= 0 {
		return slug[:end]
	}
	return slug[:length]
}

// otherSigns are what separates words.
var otherSigns = regexp.MustCompile(`[^a-z0-9_]+`)
