// Package waf is the web application firewall of the edge: it inspects requests and
// responses with rules in SecLang, the language of ModSecurity, by Coraza.
//
// A rule of the table turns it on with directives of a closed set, which package route
// checks. Nothing is compiled before the first one does. One compiled set of rules is
// shared by all rules of the table with the same directives, and is dropped with the
// last of them.
//
// A request passes phases 1 and 2 (head and body) before the backend gets it, and its
// response phases 3 and 4, the last only for the content types of
// SecResponseBodyMimeType where SecResponseBodyAccess is On. A rule that matches is
// logged with its number and message, and counted; no value of a request is logged,
// because it may be a password.
//
// It is bounded in memory and time: bodies up to a limit are inspected, with few large
// requests at one time, the number of rules and of sets of rules is limited, and
// expressions take linear time. Coraza cannot stop an inspection that has begun
// (decision 0060).
package waf
