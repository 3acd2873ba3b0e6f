// Package jq takes from an object the fields that a jq path selects, for
// ignoreDifferences.
//
// An expression is what would be between the brackets of del( ): it selects
// fields. What Argo CD documents works: paths, .[], select with conditions,
// tests of texts, recursion. The language is smaller than jq where jq builds new
// values: no arrays and objects but constants, no texts put together, no
// functions of its own. Nothing that selects fields needs them, and without them
// no expression can need more memory than the object and the expression have.
//
// It promises that an expression ends: it has so many steps and so much time, and
// one that is stuck is left behind and not tried again. It reads no environment,
// no input and no file, and writes nothing. The result depends on the object
// alone: there is no clock.
//
// It refuses the rest when an Application is read ([Evaluator.Check]), with the
// part that is not supported, so that it ends in its status.
package jq
