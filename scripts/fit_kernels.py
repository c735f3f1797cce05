#!/usr/bin/env python3
"""Prints the coefficients of src/kernel/vector_math.h.  Needs mpmath; takes a minute.

Each function is approximated by the polynomial whose largest weighted error is least (Remez exchange: of all
polynomials of degree n, the best one has an error that reaches its maximum n + 2 times, with alternating signs).
tanh is interpolated at Chebyshev's points instead, which is as good to float.  Computed in 40 digits; printed in
the 9 that a float needs, lowest power first.

    python3 scripts/fit_kernels.py
"""
import mpmath as mp

mp.mp.dps = 40
GRID = 2000


def alternate(errors, wanted):
    """Indices of the extrema of a sampled error, one for each run of equal sign, cut to `wanted` at the ends."""
    extrema, i = [], 0
    while i < len(errors):
        sign, best = mp.sign(errors[i]), i
        while i < len(errors) and mp.sign(errors[i]) == sign:
            if abs(errors[i]) > abs(errors[best]):
                best = i
            i += 1
        extrema.append(best)
    while len(extrema) > wanted:
        extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
    return extrema


def remez(f, weight, low, high, degree, rounds=12):
    """The polynomial p of that degree for which max |weight (p - f)| on [low, high] is least; and that maximum."""
    low, high, n = mp.mpf(low), mp.mpf(high), degree + 2
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / GRID)) / 2 for i in range(GRID + 1)]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    points = [round(GRID * (2 * i + 1) / (2 * n)) for i in range(n)]
    for _ in range(rounds):
        system, right = mp.matrix(n, n), mp.matrix(n, 1)
        for row, k in enumerate(points):
            for power in range(degree + 1):
                system[row, power] = grid[k] ** power
            system[row, degree + 1] = (-1) ** row / weights[k]
            right[row] = values[k]
        solution = mp.lu_solve(system, right)
        polynomial = [solution[i] for i in range(degree + 1)]
        errors = [(mp.polyval(polynomial[::-1], x) - v) * w for x, v, w in zip(grid, values, weights)]
        chosen = alternate(errors, n)
        if len(chosen) < n or chosen == points:
            break
        points = chosen
    return polynomial, max(abs(e) for e in errors)


def interpolate(f, low, high, degree):
    """The polynomial that equals f at the zeros of a Chebyshev polynomial on [low, high]; its largest error."""
    low, high, n = mp.mpf(low), mp.mpf(high), degree + 1
    at = lambda angle: low + (high - low) * (1 - mp.cos(mp.pi * angle)) / 2
    points = [at(mp.mpf(2 * i + 1) / (2 * n)) for i in range(n)]
    solution = mp.lu_solve(mp.matrix([[x**power for power in range(n)] for x in points]),
                           mp.matrix(list(map(f, points))))
    polynomial = [solution[i] for i in range(n)]
    grid = [at(mp.mpf(i) / GRID) for i in range(GRID + 1)]
    return polynomial, max(abs(mp.polyval(polynomial[::-1], x) - f(x)) for x in grid)


def show(title, fit):
    polynomial, error = fit
    print(f"{title}: error {mp.nstr(error, 3)}")
    for c in polynomial:
        print(f"  {mp.nstr(c, 9)}")


def exponential(degree=4):
    """exp(r) = 1 + r + r^2 p(r) for |r| <= ln 2 / 2 and a little more; the error relative to exp(r), about 1."""
    edge = mp.log(2) / 2 * mp.mpf("1.01")
    return remez(lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > mp.mpf(10) ** -12 else mp.mpf(1) / 2,
                 lambda r: r**2 + mp.mpf(10) ** -20, -edge, edge, degree)


def power_of_two(degree=4):
    """2^r = 1 + r p(r) for |r| <= 1/2 and a little more: exact at 0, so a softmax's largest weight is 1."""
    edge = mp.mpf("0.505")
    return remez(lambda r: mp.expm1(r * mp.log(2)) / r if abs(r) > mp.mpf(10) ** -12 else mp.log(2),
                 lambda r: abs(r) + mp.mpf(10) ** -20, -edge, edge, degree)


def normal_tail(step=mp.mpf("0.32"), degree=9, largest=14):
    """The tail of the normal distribution beyond a is exp(-a^2/2) w(a), w(a) = erfcx(a / sqrt 2) / 2, and
    w(a) = t p(u) with t = 1 / (1 + step a), u = a t.  The error is relative."""
    w = lambda a: mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2
    f = lambda u: w(u / (1 - step * u)) / (1 - step * u)
    return remez(f, lambda u: 1 / f(u), 0, mp.mpf(largest) / (1 + step * largest), degree)


def logarithm(degree=6):
    """ln(1 + y) = y - y^2/2 + y^3 p(y) for 1 + y from sqrt(1/2) to sqrt 2.  The error is relative to y."""
    f = lambda y: (mp.log1p(y) - y + y * y / 2) / y**3 if abs(y) > mp.mpf(10) ** -9 else mp.mpf(1) / 3 - y / 4
    return remez(f, lambda y: y**2 + mp.mpf(10) ** -20, mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1, degree)


def hyperbolic_tangent(degree=4):
    """tanh(x) = x + x u p(u), u = x^2, for |x| <= 1/2.  The error is p's; of tanh(x) it is u times as much."""
    f = lambda u: ((mp.tanh(mp.sqrt(u)) / mp.sqrt(u) - 1) / u if u > mp.mpf(10) ** -12
                   else -mp.mpf(1) / 3 + 2 * u / 15)
    return interpolate(f, 0, mp.mpf(1) / 4, degree)


if __name__ == "__main__":
    show("exp(r) = 1 + r + r^2 p(r)", exponential())
    show("2^r = 1 + r p(r)", power_of_two())
    show("normal tail = exp(-a^2/2) t p(a t), t = 1 / (1 + 0.32 a)", normal_tail())
    show("ln(1 + y) = y - y^2/2 + y^3 p(y)", logarithm())
    show("tanh(x) = x + x u p(u), u = x^2", hyperbolic_tangent())
