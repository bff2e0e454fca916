package aggregate

// Acc3 is the accumulator of three aggregates.
type Acc3[A, B, C any] = Acc2[A, Acc2[B, C]]

// Acc4 is the accumulator of four aggregates.
type Acc4[A, B, C, D any] = Acc2[A, Acc3[B, C, D]]

// Acc5 is the accumulator of five aggregates.
type Acc5[A, B, C, D, E any] = Acc2[A, Acc4[B, C, D, E]]

// Acc6 is the accumulator of six aggregates.
type Acc6[A, B, C, D, E, F any] = Acc2[A, Acc5[B, C, D, E, F]]

// rest has the aggregates behind the first; its result is theirs, as they are nested.
func rest[V, A, B, RA, RB any](a Aggregator[V, A, RA], b Aggregator[V, B, RB]) PairOf[V, A, B, RA, RB, Acc2[RA, RB]] {
	return Pair(a, b, func(x RA, y RB) Acc2[RA, RB] { return Acc2[RA, RB]{x, y} })
}

// Join3 is Pair for three aggregates.
func Join3[V, A, B, C, RA, RB, RC, R any](
	a Aggregator[V, A, RA], b Aggregator[V, B, RB], c Aggregator[V, C, RC], join func(RA, RB, RC) R,
) PairOf[V, A, Acc2[B, C], RA, Acc2[RB, RC], R] {
	return Pair(a, rest(b, c), func(x RA, y Acc2[RB, RC]) R { return join(x, y.A, y.B) })
}

// Join4 is Pair for four aggregates.
func Join4[V, A, B, C, D, RA, RB, RC, RD, R any](
	a Aggregator[V, A, RA], b Aggregator[V, B, RB], c Aggregator[V, C, RC], d Aggregator[V, D, RD], join func(RA, RB, RC, RD) R,
) PairOf[V, A, Acc3[B, C, D], RA, Acc3[RB, RC, RD], R] {
	return Pair(a, rest(b, rest(c, d)), func(x RA, y Acc3[RB, RC, RD]) R { return join(x, y.A, y.B.A, y.B.B) })
}

// Join5 is Pair for five aggregates.
func Join5[V, A, B, C, D, E, RA, RB, RC, RD, RE, R any](
	a Aggregator[V, A, RA], b Aggregator[V, B, RB], c Aggregator[V, C, RC], d Aggregator[V, D, RD], e Aggregator[V, E, RE],
	join func(RA, RB, RC, RD, RE) R,
) PairOf[V, A, Acc4[B, C, D, E], RA, Acc4[RB, RC, RD, RE], R] {
	return Pair(a, rest(b, rest(c, rest(d, e))), func(x RA, y Acc4[RB, RC, RD, RE]) R {
		return join(x, y.A, y.B.A, y.B.B.A, y.B.B.B)
	})
}

// Join6 is Pair for six aggregates. More are a Pair of these.
func Join6[V, A, B, C, D, E, F, RA, RB, RC, RD, RE, RF, R any](
	a Aggregator[V, A, RA], b Aggregator[V, B, RB], c Aggregator[V, C, RC], d Aggregator[V, D, RD], e Aggregator[V, E, RE],
	f Aggregator[V, F, RF], join func(RA, RB, RC, RD, RE, RF) R,
) PairOf[V, A, Acc5[B, C, D, E, F], RA, Acc5[RB, RC, RD, RE, RF], R] {
	return Pair(a, rest(b, rest(c, rest(d, rest(e, f)))), func(x RA, y Acc5[RB, RC, RD, RE, RF]) R {
		return join(x, y.A, y.B.A, y.B.B.A, y.B.B.B.A, y.B.B.B.B)
	})
}
