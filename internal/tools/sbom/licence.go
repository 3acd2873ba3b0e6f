package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// licenceTexts are phrases that only the text of one licence has, with single
// spaces. A file can have several licences.
var licenceTexts = []struct {
	id   string
	text *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,? Version 2\.0`)},
	{"BSD-3-Clause", regexp.MustCompile(`Redistribution and use in source and binary forms.* endorse or promote products`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee is hereby granted, provided that`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge, to any person .*The above copyright notice and this permission notice shall be included`)},
	{"MPL-2.0", regexp.MustCompile(`(?i)Mozilla Public License,? version 2\.0`)},
}

// twoClauses is the start of BSD-2-Clause, and of BSD-3-Clause too.
const twoClauses = "Redistribution and use in source and binary forms"

// moduleLicences returns the SPDX identifiers of the licences in the folder of
// a module, and none if the module or a known text is missing there.
func moduleLicences(cache string, module *debug.Module) []string {
	var text strings.Builder
	folder := filepath.Join(cache, escapePath(module.Path)+"@"+escapePath(module.Version))
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*"} {
		// The pattern is constant, and a folder that is missing has no files.
		names, _ := filepath.Glob(filepath.Join(folder, pattern))
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				continue // such as a folder LICENSES
			}
			text.Write(content)
		}
	}
	return recognise(text.String())
}

// recognise returns the licences whose texts are in a text.
func recognise(text string) []string {
	var found []string
	text = strings.Join(strings.Fields(text), " ")
	for _, one := range licenceTexts {
		if one.text.MatchString(text) {
			found = append(found, one.id)
		}
	}
	if !slices.Contains(found, "BSD-3-Clause") && strings.Contains(text, twoClauses) {
		found = append(found, "BSD-2-Clause")
	}
	return found
}

// escapePath writes upper case as the module cache does, for file systems that
// ignore case: "!a" for "A".
func escapePath(path string) string {
	var escaped strings.Builder
	for _, letter := range path {
		if unicode.IsUpper(letter) {
			escaped.WriteByte('!')
		}
		escaped.WriteRune(unicode.ToLower(letter))
	}
	return escaped.String()
}
