package release

// ObjectsOf reads the documents of a text.
var ObjectsOf = objectsOf
