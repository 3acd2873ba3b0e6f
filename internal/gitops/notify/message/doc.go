// Package message evaluates the triggers of notifications and renders their templates,
// in the languages of Argo CD: expressions of expr, and Go templates with the functions
// of sprig.
//
//	message   what is requested, and the result
//	trigger   the conditions of triggers
//	template  templates become the parts of a message
//	variable  what expressions and templates can use: app, time, repo, strings
//
// Applications are input of tenants, and an expression or a template over them can take
// any time and memory. So the package is used in a render worker only, which has limits
// for both and no files or network. It is pure but for the clock.
//
// See decision 0071 in docs/decisions: notifications with a record of what was sent.
package message
