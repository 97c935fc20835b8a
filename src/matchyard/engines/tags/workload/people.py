"""The people of the Twitter workload: users with languages, and publishers with tweets.

Every fact about a user is a function of (seed, user) and needs no rows. The numbers of a user's
interests and of a publisher's followers take one pass over the cheap part of all rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.kernels.random import below, draw, fraction

LANGUAGES = (
    "en", "ja", "pt", "id", "es", "nl", "ko", "fr", "de", "ms",
    "it", "tr", "ru", "zh", "ar", "hi", "bn", "th", "pl", "sv",
)  # fmt: skip
N_LANGUAGES = len(LANGUAGES)

# Share of users by first language [TagMatch §4.2.1, after Hong et al. 2011, rounded; the tail is
# ours], and by second language, after the number of second-language speakers in the world.
FIRST = [
    51, 19, 9.6, 5.6, 4.7, 1.4, 1.3, 1.3, 1, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2,
]  # fmt: skip
SECOND = [34, 0.5, 2, 9, 5, 0.5, 0.3, 11, 3, 4, 0.5, 0.6, 6, 7, 5, 9, 1.2, 1.3, 0.3, 0.2]

# Tweets come in groups of 30 by 10 publishers. Three frequent publishers (the top 30 %) write five
# tweets each, the other seven write the remaining 15. So half of the tweets have a publisher id.
TWEETS_PER_GROUP, PUBLISHERS_PER_GROUP = 30, 10
_FREQUENT_TWEETS, _FREQUENT_PUBLISHERS = 15, 3


@njit(nogil=True, cache=True)
def n_users_of(size):
    """The number of users who share `size` interests."""
    return max(1, size // 3)


@njit(nogil=True, cache=True)
def n_tweets_of(size):
    """The number of tweets that `size` interests copy."""
    return max(1, size // 8)


@njit(nogil=True, cache=True)
def locate(shares, share):
    """The position of a number in [0, 1) among cumulative shares; the last share is 1."""
    for number in range(len(shares)):
        if share < shares[number]:
            return number
    return len(shares) - 1


@njit(nogil=True, cache=True)
def choose(shares, word):
    """Draw a position from cumulative shares with a random word."""
    return locate(shares, fraction(word))


@njit(nogil=True, cache=True)
def user_of(seed, size, number):
    """The user of interest `number`, by a power law: a few users follow very many publishers."""
    share = fraction(draw(seed, number, 1))
    return np.int64(share * share * n_users_of(size))


@njit(nogil=True, cache=True)
def tweet_of(seed, size, number):
    """The tweet that interest `number` copies."""
    return below(draw(seed, number, 6), n_tweets_of(size))


@njit(nogil=True, cache=True)
def first_language(seed, shares, user):
    """The first language of a user."""
    return choose(shares, draw(seed ^ 0x75, user, 2))


@njit(nogil=True, cache=True)
def has_second_language(seed, user):
    """True if a user speaks a second language: three users in five do [TagMatch §4.2.1]."""
    return fraction(draw(seed ^ 0x75, user, 3)) >= 0.4


@njit(nogil=True, cache=True)
def second_language(seed, shares, user):
    """The second language of a user who has one; it may equal the first."""
    return choose(shares, draw(seed ^ 0x75, user, 5))


@njit(nogil=True, cache=True)
def publisher_of(tweet):
    """The publisher of a tweet; the publishers who are not frequent take turns."""
    group, number = tweet // TWEETS_PER_GROUP, tweet % TWEETS_PER_GROUP
    if number < _FREQUENT_TWEETS:
        return group * PUBLISHERS_PER_GROUP + number // 5
    seldom = PUBLISHERS_PER_GROUP - _FREQUENT_PUBLISHERS
    turn = (number - _FREQUENT_TWEETS) % seldom
    return group * PUBLISHERS_PER_GROUP + _FREQUENT_PUBLISHERS + turn


@njit(nogil=True, cache=True)
def is_frequent(publisher):
    """True if a publisher is in the top 30 % by tweets."""
    return publisher % PUBLISHERS_PER_GROUP < _FREQUENT_PUBLISHERS


@njit(nogil=True, cache=True)
def describe_users(seed, size, first, second, start, stop):
    """(first language, second language or -1, interests) of users `start` … `stop`-1."""
    languages = np.empty(stop - start, np.int64)
    others = np.full(stop - start, -1, np.int64)
    n_interests = np.zeros(stop - start, np.int64)
    for user in range(start, stop):
        languages[user - start] = first_language(seed, first, user)
        if has_second_language(seed, user):
            others[user - start] = second_language(seed, second, user)
    for number in range(size):
        user = user_of(seed, size, number)
        if start <= user < stop:
            n_interests[user - start] += 1
    return languages, others, n_interests


@njit(nogil=True, cache=True)
def describe_publishers(seed, size, start, stop):
    """(tweets, followers) of publishers `start` … `stop`-1."""
    n_tweets = np.zeros(stop - start, np.int64)
    n_followers = np.zeros(stop - start, np.int64)
    first = start // PUBLISHERS_PER_GROUP * TWEETS_PER_GROUP
    last = min(n_tweets_of(size), (stop // PUBLISHERS_PER_GROUP + 1) * TWEETS_PER_GROUP)
    for tweet in range(first, last):
        publisher = publisher_of(tweet)
        if start <= publisher < stop:
            n_tweets[publisher - start] += 1
    for number in range(size):
        publisher = publisher_of(tweet_of(seed, size, number))
        if start <= publisher < stop:
            n_followers[publisher - start] += 1
    return n_tweets, n_followers
